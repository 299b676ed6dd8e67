"""The registry at a glance: one line for each release, read quickly enough for thousands of them.

Records are written by modelctl, so a few scalars are taken from their lines; a file that is written in any other way is
parsed strictly instead, and so is every release file that has no record. What is shown is for reading: a
verification reads the whole record.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from modelctl.registry.versions import version_order

State = Literal["proposed", "published", "retired"]
_TAIL_BYTES = 16 << 10
_ADMITTED = re.compile(rb'^  "created_at": "([0-9T:Z+.-]+)"', re.MULTILINE)
_RECORD = re.compile(
    rb"""\nmetadata:\n  name: (?P<name>\S+)\n  version: (?P<version>\S+)\n"""
    rb"""published_at: '(?P<published_at>[^'\n]+)'\n(?:.*\n)*?"""
    rb"""policy:\n  name: (?P<policy>[\w.-]+)\n(?:.*\n)*?"""
    rb"""  key_id: (?P<key_id>SHA256:\S+)\n(?:.*\n)*?"""
    rb"""served:\n  tree_digest: (?P<tree_digest>sha256:\S+)\n  size_bytes: (?P<size_bytes>\d+)\n  uri: (?P<uri>s3://\S+)\n"""
)
_LICENSE = re.compile(rb"^  license: *([A-Za-z0-9][\w.+-]*) *$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """One release. What only a publication knows is None for a proposed one."""

    name: str
    version: str
    state: State
    license: str | None
    published_at: str | None = None
    admitted_at: str | None = None
    """When its report was made; None when the report says nothing that can be read."""
    tree_digest: str | None = None
    size_bytes: int | None = None
    uri: str | None = None
    policy: str | None = None
    key_id: str | None = None

    @property
    def id(self) -> str:
        """`name@version`."""
        return f"{self.name}@{self.version}"


def summaries(root: Path, name: str | None = None) -> tuple[Summary, ...]:
    """Every release of a registry repository, or those of one name, by name and by version.

    Raises `InputError` for a record or release file that is malformed.
    """
    found = []
    for model in _folders(root / "registry"):
        if name in (None, model.name):
            found += [_summary(root, model.name, folder.name, folder.path) for folder in _folders(Path(model))]
    present = [item for item in found if item is not None]
    return tuple(sorted(present, key=lambda item: (item.name, version_order(item.version))))


def published(root: Path, name: str | None = None) -> tuple[Summary, ...]:
    """Those that are published and not retired."""
    return tuple(item for item in summaries(root, name) if item.state == "published")


def _folders(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if entry.is_dir()]
    except FileNotFoundError:
        return []


def _summary(root: Path, name: str, version: str, folder: str) -> Summary | None:
    files = set(os.listdir(folder))  # noqa: PTH208 - names alone, thousands of times
    if "record.yaml" not in files:
        return _proposed(Path(folder, "release.yaml")) if "release.yaml" in files else None
    found = _RECORD.search(_content(f"{folder}/record.yaml"))
    values = {key: value.decode(errors="replace") for key, value in found.groupdict().items()} if found else {}
    if (values.get("name"), values.get("version")) != (name, version):  # of another, or not as modelctl writes it
        values = _parsed(root, name, version)
    size_bytes = int(values.pop("size_bytes"))
    return Summary(
        state="retired" if "retired.yaml" in files else "published",
        license=_license(f"{folder}/release.yaml") if "release.yaml" in files else None,
        admitted_at=_admitted_at(f"{folder}/admission.json") if "admission.json" in files else None,
        size_bytes=size_bytes,
        **values,
    )


def _proposed(path: Path) -> Summary:
    from modelctl.model.release import load_release

    release = load_release(path)
    metadata = release.metadata
    return Summary(name=metadata.name, version=metadata.version, state="proposed", license=release.spec.license)


def _parsed(root: Path, name: str, version: str) -> dict[str, str]:
    from modelctl.registry.records import load_record

    record = load_record(root, name, version)
    return {
        "name": name,
        "version": version,
        "published_at": record.published_at,
        "policy": record.policy.name,
        "key_id": record.evidence.key_id,
        "tree_digest": record.served.tree_digest,
        "size_bytes": str(record.served.size_bytes),
        "uri": record.served.uri,
    }


def _license(release: str) -> str | None:
    """The licence that a release file names: from a plain line, else from the whole file."""
    content = _content(release)
    if b"license" not in content:
        return None
    found = _LICENSE.findall(content)
    if len(found) == content.count(b"license") == 1:
        return str(found[0], "ascii")
    from modelctl.model.release import load_release

    return load_release(Path(release)).spec.license


def _admitted_at(report: str) -> str | None:
    """When a report was made. A line that begins so is a key of the report itself: JSON texts hold no line breaks."""
    with open(report, "rb", buffering=0) as stream:  # noqa: PTH123 - thousands of them
        size = stream.seek(0, os.SEEK_END)
        for start in sorted({max(0, size - _TAIL_BYTES), 0}, reverse=True):
            stream.seek(start)
            found = _ADMITTED.search(stream.read())
            if found is not None:
                return found[1].decode()
    return None


def _content(path: str) -> bytes:
    with open(path, "rb", buffering=0) as stream:  # noqa: PTH123 - thousands of them
        return stream.read()
