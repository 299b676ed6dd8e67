"""The text that quantising looks at: a file, a pinned data set of the Hub, or the sample that ships with the program.

The shipped sample was written for this program, Chinese first, in many languages, with code, tables and numbers. Its
second part is composed from sentence patterns and is taken only when the first is too short for the tokens asked for.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from modelctl import worker
from modelctl.accuracy.composed import composed_text
from modelctl.accuracy.tools import network_environment, versions, worker_environment
from modelctl.errors import CannotDecideError, InputError
from modelctl.files import write_whole
from modelctl.isolation import Sandbox
from modelctl.model.release import Calibration
from modelctl.progress import Progress

SHIPPED_TEXT = Path(__file__).parent / "data" / "calibration.txt"
MAX_FILE_BYTES = 64 << 20
MAX_DATASET_CHARACTERS = 8_000_000
"""Of a data set's rows, the first that make so many characters are read; gptqmodel's usual need is a tenth of it."""
ADVISED_SAMPLES = 256
ADVISED_TOKENS = 256
"""Of one sample. Below either, gptqmodel warns."""


@dataclass(frozen=True, kw_only=True)
class CalibrationText:
    """Text to calibrate with, and where it is from."""

    origin: str
    """`shipped`, `file PATH` or `dataset ORG/NAME@COMMIT`, for the report."""
    parts: tuple[str, ...]
    """Each is taken only when those before it hold too few tokens."""

    @property
    def sha256(self) -> str:
        """Of the parts, as hex."""
        return hashlib.sha256(json.dumps(self.parts).encode()).hexdigest()


def shipped() -> CalibrationText:
    """The sample that comes with the program."""
    return CalibrationText(origin="shipped", parts=(SHIPPED_TEXT.read_text(encoding="utf-8"), composed_text()))


def from_file(path: Path, *, column: str = "text", shown: str | None = None) -> CalibrationText:
    """A plain text or `.jsonl` file. Raises `InputError` when it is missing, empty, too large or malformed."""
    shown = shown or str(path)
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InputError(
                f"calibration file {shown}: over {MAX_FILE_BYTES >> 20} MiB",
                remedy="some hundred kilobytes of text like that which will be asked are plenty",
            )
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"calibration file {shown}: {error.strerror}", remedy="name a text file or a .jsonl file"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"calibration file {shown}: not UTF-8", remedy="convert it to UTF-8") from error
    if path.suffix == ".jsonl":
        lines = enumerate(text.split("\n"), start=1)
        text = "\n\n".join(_row(line, f"{shown}:{number}", column) for number, line in lines if line.strip())
    if not text.strip():
        raise InputError(f"calibration file {shown}: holds no text", remedy="name a file with text in it")
    return CalibrationText(origin=f"file {shown}", parts=(text,))


def from_registry(file: Path, *, root: Path, column: str) -> CalibrationText:
    """A file below `root`, the registry repository. Raises `InputError` also when it lies outside."""
    path = (root / file).resolve()
    if not path.is_relative_to(root.resolve()):
        raise InputError(
            f"calibration file {file}: outside of the registry repository",
            remedy="put the file into the repository and name it relative to its root",
        )
    return from_file(path, column=column, shown=file.as_posix())


def resolve(
    calibration: Calibration | None,
    *,
    root: Path,
    cache: Path,
    progress: Progress,
    time_limit_s: float,
    memory_limit_bytes: int,
) -> CalibrationText:
    """The text that a release or a policy names; files are those below `root`, the registry repository.

    Raises `InputError` for a file that is not there or outside, `CannotDecideError` for a data set that can't be had.
    """
    if calibration is None:
        return shipped()
    if calibration.file is not None:
        return from_registry(calibration.file, root=root, column=calibration.column)
    text = _dataset(calibration, cache / "calibration", progress, time_limit_s, memory_limit_bytes)
    return CalibrationText(origin=f"dataset {calibration.dataset}@{calibration.revision}", parts=(text,))


def shortcomings(*, samples: int, sample_tokens: int, text_tokens: int) -> tuple[str, ...]:
    """What makes a calibration weaker than advised, one sentence each; `text_tokens` are those that the text holds."""
    found = []
    if samples < ADVISED_SAMPLES:
        found.append(f"calibrated with {samples} samples, {ADVISED_SAMPLES} or more are advised (calibration_samples)")
    if sample_tokens < ADVISED_TOKENS:
        found.append(f"calibrated with samples of {sample_tokens} tokens, {ADVISED_TOKENS} or more are advised")
    if text_tokens < samples * sample_tokens:
        found.append(
            f"the calibration text holds {text_tokens} tokens, fewer than the {samples * sample_tokens} asked for: "
            "samples overlap"
        )
    return tuple(found)


def _row(line: str, where: str, column: str) -> str:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise InputError(f"calibration file {where}: no JSON: {error}", remedy="write one JSON value a line") from error
    text = value.get(column) if isinstance(value, dict) else value
    if not isinstance(text, str):
        raise InputError(
            f"calibration file {where}: no text under '{column}'",
            remedy='write lines like {"text": "…"}, or name the key as calibration.column',
        )
    return text


def _dataset(
    calibration: Calibration, folder: Path, progress: Progress, time_limit_s: float, memory_limit_bytes: int
) -> str:
    """The rows of a data set, fetched once: a pinned commit does not change."""
    request = calibration.model_dump(mode="json", exclude={"file"})
    identity = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
    kept = folder / f"{identity}.txt"
    if kept.is_file():
        return kept.read_text(encoding="utf-8")
    versions(("datasets",))
    progress.note(f"fetching the calibration text: data set {calibration.dataset}")
    online = {"HF_HUB_OFFLINE": "0", "HF_DATASETS_OFFLINE": "0"}
    try:
        answer = worker.call(
            Sandbox("none"),  # it needs the network, and sees nothing that is hostile: no model
            "accuracy.calibration_worker",
            {**request, "characters": MAX_DATASET_CHARACTERS},
            env={**worker_environment(), **network_environment(), **online},
            time_limit_s=time_limit_s,
            memory_limit_bytes=memory_limit_bytes,
        )
    except CannotDecideError as error:
        raise CannotDecideError(
            f"the calibration data set {calibration.dataset} could not be fetched: {error.message}",
            remedy="check its name, subset, split and column, and the way to the Hub (HTTPS_PROXY, HF_ENDPOINT); "
            "or put the text into the registry repository (calibration: {file: …})",
        ) from error
    text = str(answer["text"])
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(kept, text)
    return text
