"""The model's files with their hashes, for a report's page: from the integrity check's raw evidence, where that lies
beside the report and is the file that the report lists."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from modelctl.admission.report import RawEvidence, Report

MAX_LISTING_BYTES = 32 << 20


class ModelFile(NamedTuple):
    """One file."""

    path: str
    size_bytes: int
    sha256: str


def served_files(report: Report, folders: Sequence[Path]) -> tuple[ModelFile, ...] | None:
    """The served tree's files, else the source's where they are the same; None when no listing is at hand."""
    same = report.model.served_digest in (None, report.model.source_digest)
    names = ("integrity/files-source.json",) if same else ("integrity/files-served.json",)
    listed = [item for check in report.checks for item in check.evidence if item.path in names]
    for item in listed:
        for folder in folders:
            content = _content(folder / item.path, item)
            if content is not None:
                return _files(content)
    return None


def _content(path: Path, item: RawEvidence) -> bytes | None:
    if item.size_bytes > MAX_LISTING_BYTES or path.is_symlink():
        return None
    try:
        with path.open("rb") as stream:
            content = stream.read(item.size_bytes + 1)
    except OSError:
        return None
    return content if hashlib.sha256(content).hexdigest() == item.sha256 else None


def _files(content: bytes) -> tuple[ModelFile, ...] | None:
    try:
        return tuple(
            ModelFile(str(entry["path"]), int(entry["size_bytes"]), str(entry["sha256"]))
            for entry in json.loads(content)
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
