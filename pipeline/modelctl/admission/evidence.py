"""Raw evidence beside the report: `<evidence folder>/<check>/<name>`, listed in the report with size and sha256."""

from __future__ import annotations

import shutil
from pathlib import Path

from modelctl.admission.report import RawEvidence
from modelctl.model.tree import hash_file


class EvidenceFolder:
    """The evidence of one check."""

    def __init__(self, root: Path, check_id: str) -> None:
        self._root = root
        self._folder = root / check_id
        shutil.rmtree(self._folder, ignore_errors=True)

    def keep(self, name: str, content: bytes | Path) -> None:
        """Keep bytes or a copy of a file; a second one of the same name replaces the first."""
        if Path(name).name != name:
            raise ValueError(f"evidence name with a path: {name!r}")
        self._folder.mkdir(parents=True, exist_ok=True)
        target = self._folder / name
        if isinstance(content, bytes):
            target.write_bytes(content)
        else:
            shutil.copyfile(content, target)

    def listing(self) -> tuple[RawEvidence, ...]:
        """What was kept, by path."""
        if not self._folder.is_dir():
            return ()
        return tuple(
            RawEvidence(
                path=path.relative_to(self._root).as_posix(), size_bytes=path.stat().st_size, sha256=hash_file(path)
            )
            for path in sorted(self._folder.iterdir())
        )
