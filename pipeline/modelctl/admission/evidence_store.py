"""Evidence by way of an S3 server: a runner in a cluster leaves its folder below a prefix, and the gate takes it from
there.

The report is written last: a prefix without one is of a run that has not ended. Nothing is believed because of where it
lies: the gate holds what it fetched against the release, the policy and the signatures like any other folder.
"""

from __future__ import annotations

from pathlib import Path

from modelctl.admission.evidence_signature import REPORT_NAME, SIGNATURE_FILE
from modelctl.admission.report import Report
from modelctl.errors import InputError
from modelctl.model.s3_client import S3Client
from modelctl.model.s3_faults import translated
from modelctl.model.s3_listing import S3Prefix, list_prefix
from modelctl.model.s3_source import fetch_prefix
from modelctl.model.source_names import S3_SCHEME
from modelctl.progress import SILENT, Progress


def is_remote(place: str | Path) -> bool:
    """Whether evidence is meant to lie at a prefix of an S3 server."""
    return str(place).startswith(S3_SCHEME)


def evidence_prefix(uri: str) -> S3Prefix:
    """The prefix of `s3://bucket/prefix`. Raises `InputError`, also for a whole bucket."""
    where = S3Prefix.parse(uri)
    if not where.prefix:
        raise InputError(f"{uri}: a whole bucket", remedy="name a prefix of one runner's own: s3://BUCKET/RUN/gpu")
    return where


def send_evidence(folder: Path, report: Report, uri: str, client: S3Client, progress: Progress = SILENT) -> int:
    """Send a report's raw evidence, its signature and the report itself to a prefix; returns the number of files.

    Raises `StoreError`.
    """
    where = evidence_prefix(uri)
    names = [item.path for check in report.checks for item in check.evidence]
    names += [name for name in (SIGNATURE_FILE, REPORT_NAME) if (folder / name).is_file()]
    sizes = {name: (folder / name).stat().st_size for name in names}
    with (
        translated(f"write {where}", client.place(where.bucket)),
        progress.task(f"send evidence to {where}", total=sum(sizes.values()), unit="bytes") as task,
    ):
        for name in (
            REPORT_NAME,
            SIGNATURE_FILE,
        ):  # an earlier run's would be of other raw evidence than what comes now
            client.minio.remove_object(where.bucket, where.prefix + name)
        for name, size_bytes in sizes.items():
            client.minio.fput_object(where.bucket, where.prefix + name, str(folder / name))
            task.advance(size_bytes)
    return len(names)


def fetch_evidence(uri: str, client: S3Client, store: Path, progress: Progress = SILENT) -> Path:
    """Bring what a runner left below a prefix to this disk, into the content store at `store`.

    Raises `InputError` for a prefix that is empty, holds no report or what no disk can hold, and `StoreError`.
    """
    where = evidence_prefix(uri)
    listing = list_prefix(client, where)
    if listing.problems:
        raise InputError(f"{where}: {listing.problems[0].path} {listing.problems[0].detail}")
    if REPORT_NAME not in listing.files:
        raise InputError(
            f"{where}: no {REPORT_NAME}: the run there has not ended, or it is no evidence",
            remedy="name the prefix that modelctl admit … --evidence-dir s3://… was given",
        )
    return fetch_prefix(client, listing, store, progress)
