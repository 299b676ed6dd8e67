"""Why an engine ended before it was ready, read from its log.

Two cases must be told apart: the engine could not load this model, which is a finding against the release; or the
engine itself does not run here (a missing package, an unknown flag, no GPU), which says nothing of the model. The log
is the model's word too, so it is cleaned before a person sees it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

_TAIL_BYTES = 256 << 10
_SHOWN_LINES = 5
_SHOWN_CHARACTERS = 400

_PREFIX = re.compile(
    r"^(?:\([^()]*pid=\d+\)\s*)*(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\s+\S+\s+\S+\s+\[[^\]]*\]\s?)?"
)
_ERROR = re.compile(r"^\s*(?:[\w.]*(?:Error|Exception|Failure)\b.*:|Value error,|error:|fatal:|bwrap:|\S+: error:)")
_SECOND_HAND = re.compile(
    r"Engine core initialization failed|See root cause above|engine core proc|EngineDeadError"
    r"|WorkerProc initialization failed|validation errors? for \w+$"
)
"""Errors that only say that there was another one."""

NOT_THE_MODEL = (
    (
        re.compile(r"error: (?:unrecognized arguments|argument |the following arguments|ambiguous option)"),
        "engine.args",
    ),
    (
        re.compile(r"(?:ModuleNotFoundError|ImportError): .*(?:vllm|torch|triton|transformers|cuda)", re.I),
        "engine.command",
    ),
    (re.compile(r"No module named|PackageNotFoundError"), "engine.command"),
    (
        re.compile(r"^bwrap: |cannot execute|command not found|No such file or directory: '[^']*python"),
        "engine.command",
    ),
    (
        re.compile(r"Failed to infer device type|No CUDA GPUs are available|Found no NVIDIA driver|libcuda\.so"),
        "engine.args",
    ),
    (re.compile(r"No space left on device|Cannot allocate memory|Too many open files"), "engine.memory_limit_gib"),
)
"""Words in the log that blame the installation or the machine, and the setting that mends it."""


def last_errors(log: Path) -> tuple[str, ...]:
    """The last few different error lines, oldest first; the last lines of any kind when there is no error among
    them."""
    lines = _lines(log)
    errors = list(dict.fromkeys(line.strip() for line in lines if _ERROR.match(line)))
    first_hand = [line for line in errors if not _SECOND_HAND.search(line)]
    chosen = first_hand or errors or [line.strip() for line in lines if line.strip()]
    return tuple(line[:_SHOWN_CHARACTERS] for line in chosen[-_SHOWN_LINES:])


def blames_machine(errors: Sequence[str]) -> str | None:
    """The setting to look at when the error lines are about the installation or the machine and not the model, else
    None."""
    for line in errors:
        for pattern, setting in NOT_THE_MODEL:
            if pattern.search(line):
                return setting
    return None


def read_tail(log: Path, limit_bytes: int = _TAIL_BYTES) -> bytes:
    """The end of a log; empty when there is none."""
    try:
        with log.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(0, size - limit_bytes))
            return stream.read(limit_bytes)
    except FileNotFoundError:
        return b""


def _lines(log: Path) -> list[str]:
    text = read_tail(log).decode("utf-8", "replace")
    shown = "".join(character if character.isprintable() or character == "\n" else " " for character in text)
    return [_PREFIX.sub("", line).rstrip() for line in shown.split("\n")]
