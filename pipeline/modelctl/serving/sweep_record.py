"""A sweep on disk: what was asked of which engine, a line for each finished stage, and every request of each stage.

A stage is written only when it is whole, its requests first, so that a sweep which was interrupted goes on behind the
last finished stage. A folder holds one sweep; another engine or another plan is an error and overwrites nothing.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from modelctl.errors import InputError
from modelctl.files import write_whole
from modelctl.serving.endpoint import Endpoint
from modelctl.serving.load import LoadResult
from modelctl.serving.sweep import Stage, SweepPlan

ABOUT_NAME = "sweep.json"
STAGES_NAME = "stages.jsonl"


@dataclass(frozen=True, kw_only=True)
class SweepRecord:
    """The folder of one sweep."""

    folder: Path

    def open(self, endpoint: Endpoint, plan: SweepPlan) -> tuple[Stage, ...]:
        """Begin, or go on: the stages that are done. Raises `InputError` when the folder holds another sweep."""
        asked = _asked(endpoint, plan)
        about = self.folder / ABOUT_NAME
        if not about.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            if any(self.folder.iterdir()):
                raise InputError(f"{self.folder}: not empty and no sweep", remedy="name an empty folder or a new one")
            write_whole(about, json.dumps(asked, indent=2) + "\n")
            return ()
        try:
            found = json.loads(about.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{about}: not JSON: {error}", remedy="remove the folder, or name another") from error
        if found != asked:
            differing = [key for key in asked if not isinstance(found, dict) or found.get(key) != asked[key]]
            raise InputError(
                f"{self.folder} holds a sweep with another {' and '.join(differing)}",
                remedy="name another folder, or remove this one",
            )
        return self.stages()

    def stages(self) -> tuple[Stage, ...]:
        """The finished stages, in their order; a last line that was cut off is not one."""
        path = self.folder / STAGES_NAME
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
        found = []
        for line in lines:
            if not line.endswith("\n"):
                break
            try:
                found.append(Stage(**json.loads(line)))
            except (ValueError, TypeError) as error:
                raise InputError(
                    f"{path}: a line that is no stage: {error}", remedy="remove the folder, or name another"
                ) from error
        return tuple(found)

    def keep(self, stage: Stage, result: LoadResult) -> None:
        """Write one finished stage: requests and readings, then its line."""
        self.keep_requests(stage, result)
        whole = (*self.stages(), stage)
        write_whole(self.folder / STAGES_NAME, "".join(f"{json.dumps(asdict(item))}\n" for item in whole))

    def keep_requests(self, stage: Stage, result: LoadResult) -> None:
        """Write requests and readings of a stage and not its line: it is run again when the sweep goes on."""
        rows = [asdict(row) for row in result.rows]
        _write_lines(self.folder / f"requests-{stage.number:03}.jsonl.gz", rows)
        readings = [asdict(reading) for reading in result.readings]
        _write_lines(self.folder / f"metrics-{stage.number:03}.jsonl.gz", readings)

    def requests(self, stage: Stage) -> list[dict[str, object]]:
        """The requests of a stage as they were kept."""
        return _read_lines(self.folder / f"requests-{stage.number:03}.jsonl.gz")

    def readings(self, stage: Stage) -> list[dict[str, object]]:
        """The readings of the engine's metrics in a stage as they were kept."""
        return _read_lines(self.folder / f"metrics-{stage.number:03}.jsonl.gz")


def _asked(endpoint: Endpoint, plan: SweepPlan) -> dict[str, object]:
    engine = {"url": endpoint.base_url, "model": endpoint.model, "version": endpoint.version}
    asked = {"engine": engine, "plan": asdict(plan)}
    copied: dict[str, object] = json.loads(json.dumps(asked))  # tuples as JSON has them
    return copied


def _write_lines(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    content = "".join(f"{json.dumps(row, sort_keys=True)}\n" for row in rows)
    write_whole(path, gzip.compress(content.encode(), mtime=0))


def _read_lines(path: Path) -> list[dict[str, object]]:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]
