"""What a quantised model must not carry: paths of the machine it was made on, and the text it was calibrated with.

Paths are looked for in every byte. Calibration text is looked for in every string of the JSON files and of the
safetensors headers, and a few passages of it in every byte too.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path

from modelctl.model.safetensors import read_header
from modelctl.model.strict_json import Json

PASSAGE = 32
"""So many characters in a row that are the calibration text's are no chance."""
_PROBES = 4


def leaks(files: Sequence[Path], *, paths: Sequence[Path], texts: Sequence[str]) -> tuple[str, ...]:
    """What was found in `files` (safetensors and JSON), one sentence each; empty when there is nothing."""
    passages = _passages(texts)
    needles = [(str(path), f"the local path {path}") for path in dict.fromkeys(paths) if len(path.parts) > 2]
    needles += [(probe, "calibration text") for probe in _probes(texts)]
    found = []
    for file in files:
        found += [f"{file.name}: {what}" for needle, what in needles if _holds(file, needle.encode())]
        if any(_quotes(string, passages) for string in _strings(file)):
            found.append(f"{file.name}: calibration text")
    return tuple(dict.fromkeys(found))


def _passages(texts: Sequence[str]) -> frozenset[str]:
    return frozenset(text[start : start + PASSAGE] for text in texts for start in range(len(text) - PASSAGE + 1))


def _probes(texts: Sequence[str]) -> Iterator[str]:
    whole = max(texts, key=len, default="")
    if len(whole) < PASSAGE:
        return
    for number in range(_PROBES):
        start = number * (len(whole) - PASSAGE) // _PROBES
        yield whole[start : start + PASSAGE]


def _quotes(string: str, passages: frozenset[str]) -> bool:
    return any(string[start : start + PASSAGE] in passages for start in range(len(string) - PASSAGE + 1))


def _holds(file: Path, needle: bytes) -> bool:
    if file.stat().st_size == 0:
        return False
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(needle) >= 0


def _strings(file: Path) -> Iterator[str]:
    if file.suffix == ".safetensors":
        header = read_header(file)
        yield from header.metadata
        yield from header.metadata.values()
        yield from (tensor.name for tensor in header.tensors)
    else:
        waiting: list[Json] = [json.loads(file.read_bytes())]
        while waiting:
            value = waiting.pop()
            if isinstance(value, str):
                yield value
            elif isinstance(value, dict):
                waiting += [*value, *value.values()]
            elif isinstance(value, list):
                waiting += value
