"""`registry/<name>/<version>/retired.yaml`: a release whose bytes were given up; everything else of its record stays.

The evidence of what was once served is never removed from git. Only the bytes go, by a commit that says so first.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from modelctl.documents import Document, load_document, write_yaml
from modelctl.errors import InputError
from modelctl.model.release import Metadata, release_folder
from modelctl.registry.manifest import Digest, Timestamp
from modelctl.registry.names import RETIRED_FILE


class Retired(Document):
    """The file."""

    api_version: Annotated[Literal["modelctl.dev/v1"], Field(alias="apiVersion")] = "modelctl.dev/v1"
    kind: Literal["RetiredRelease"] = "RetiredRelease"
    metadata: Metadata
    tree_digest: Digest
    retired_at: Timestamp
    reason: str

    def to_yaml(self) -> str:
        """The file's text."""
        return write_yaml(self.model_dump(mode="json", by_alias=True))


def retired(root: Path, name: str, version: str) -> Retired | None:
    """What says that a release was retired; None when nothing does. Raises `InputError` for a malformed file."""
    path = release_folder(root, name, version) / RETIRED_FILE
    if not path.is_file():
        return None
    found = load_document(path, Retired)
    if (found.metadata.name, found.metadata.version) != (name, version):
        raise InputError(f"{path}: is of {found.metadata.name}@{found.metadata.version}", remedy=f"git log -- {path}")
    return found


def refuse_retired(root: Path, name: str, version: str) -> None:
    """Raise `InputError` for a release that was retired: its bytes are gone."""
    found = retired(root, name, version)
    if found is not None:
        raise InputError(
            f"{name}@{version} was retired at {found.retired_at} ({found.reason}): its bytes are gone",
            remedy="modelctl list shows what is published; the same bytes may be proposed under a new version",
        )
