"""The registry at a glance: one line for each release, read quickly enough for thousands of them.

Records are written by modelctl, so a few scalars are taken from their lines; a file that is written in any other way is
parsed strictly instead, and so is every release file that has no record. What is shown is for reading: a
verification reads the whole record.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from modelctl.errors import InputError
from modelctl.model.release import load_release
from modelctl.registry.records import RECORD_FILE, REPORT_FILE, load_record, version_order
from modelctl.registry.retired import RETIRED_FILE

State = Literal["proposed", "published", "retired"]
_TAIL_BYTES = 16 << 10
_ADMITTED = re.compile(rb'^  "created_at": "([0-9T:Z+.-]+)"', re.MULTILINE)
_LINE = re.compile(r"^( {2})?([A-Za-z_]\w*):(?: (.*))?$")
_PLAIN = re.compile(r"[A-Za-z0-9][\w./:@+ -]*|'[^']*'")
_LICENSE = re.compile(r"^  license: *([A-Za-z0-9][\w.+-]*) *$", re.MULTILINE)


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
    found = [_summary(root, path) for path in (root / "registry").glob(f"{name or '*'}/*/") if path.is_dir()]
    present = [item for item in found if item is not None]
    return tuple(sorted(present, key=lambda item: (item.name, version_order(item.version))))


def published(root: Path, name: str | None = None) -> tuple[Summary, ...]:
    """Those that are published and not retired."""
    return tuple(item for item in summaries(root, name) if item.state == "published")


def _summary(root: Path, folder: Path) -> Summary | None:
    record = folder / RECORD_FILE
    release = folder / "release.yaml"
    try:
        text = record.read_text(encoding="utf-8")
    except FileNotFoundError:
        if not release.is_file():
            return None
        proposed = load_release(release)
        metadata = proposed.metadata
        return Summary(name=metadata.name, version=metadata.version, state="proposed", license=proposed.spec.license)
    except UnicodeDecodeError as error:
        raise InputError(f"{record}: not UTF-8", remedy=f"git log -- {record}") from error
    name, version = folder.parent.name, folder.name
    lines = _scalars(text)
    try:
        if (lines["metadata.name"], lines["metadata.version"]) != (name, version):
            raise InputError(f"{record}: is the record of another release", remedy=f"git log -- {record}")
        values = {key: lines[place] for key, place in _PLACES.items()}
        size_bytes = int(lines["served.size_bytes"])
    except (KeyError, ValueError):  # not as modelctl writes it
        whole = load_record(root, name, version)
        served, policy = whole.served, whole.policy
        values = {
            "published_at": whole.published_at,
            "tree_digest": served.tree_digest,
            "uri": served.uri,
            "policy": policy.name,
            "key_id": whole.evidence.key_id,
        }
        size_bytes = served.size_bytes
    return Summary(
        name=name,
        version=version,
        state="retired" if (folder / RETIRED_FILE).exists() else "published",
        license=_license(release),
        admitted_at=_admitted_at(folder / REPORT_FILE),
        size_bytes=size_bytes,
        **values,
    )


_PLACES: Mapping[str, str] = {
    "published_at": "published_at",
    "tree_digest": "served.tree_digest",
    "uri": "served.uri",
    "policy": "policy.name",
    "key_id": "evidence.key_id",
}


def _scalars(text: str) -> dict[str, str]:
    """The plain scalars of a record's first two levels, by dotted key, up to the list of files."""
    found: dict[str, str] = {}
    block = ""
    for line in text.split("\n"):
        if line == "  files:" and block == "served":
            break
        matched = _LINE.fullmatch(line)
        if matched is None:
            continue
        indent, key, value = matched.groups()
        if not indent:
            block = key
        place = f"{block}.{key}" if indent else key
        if value is not None and _PLAIN.fullmatch(value):
            found[place] = value.strip("'")
    return found


def _license(release: Path) -> str | None:
    """The licence that a release file names: from a plain line, else from the whole file."""
    try:
        text = release.read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    if "license" not in text:
        return None
    found = _LICENSE.findall(text)
    return found[0] if len(found) == text.count("license") == 1 else load_release(release).spec.license


def _admitted_at(report: Path) -> str | None:
    """When a report was made. A line that begins so is a key of the report itself: JSON texts hold no line breaks."""
    try:
        with report.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(0, size - _TAIL_BYTES))
            found = _ADMITTED.search(stream.read())
            if found is None and size > _TAIL_BYTES:
                stream.seek(0)
                found = _ADMITTED.search(stream.read())
    except FileNotFoundError:
        return None
    return found[1].decode() if found else None
