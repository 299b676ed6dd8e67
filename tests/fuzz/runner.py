"""Runs the cases of a target: each within a bound of processor time and memory, each failure kept with what made it."""

from __future__ import annotations

import random
import shutil
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

CPU_LIMIT_S = 10.0
"""A case takes some milliseconds; processor time, so that a busy machine makes no failures."""
MEMORY_LIMIT_MIB = 256
DEFAULT_SEED = 20_240_229

Case = Callable[[random.Random, Path], bytes | None]
"""Draws one case, judges it in a folder of its own, and returns what it judged. Raises what is wrong."""


class WrongError(AssertionError):
    """The program's answer to a case is not the right one. `content` is what it was given."""

    def __init__(self, message: str, content: bytes) -> None:
        super().__init__(message)
        self.content = content


class HangError(BaseException):
    """A case ran for too long; no handler of the program may catch it."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A case that went wrong; `--target`, `--seed` and `--first` bring it back."""

    target: str
    seed: int
    number: int
    message: str
    content: bytes | None


def run_cases(target: str, case: Case, folder: Path, *, seed: int, first: int, cases: int) -> Iterator[Failure]:
    """Every failure among `cases` cases from number `first` on."""
    for number in range(first, first + cases):
        here = folder / f"{target}-{number}"
        here.mkdir(parents=True)
        before = _peak_mib()
        try:
            with _time_limit():
                case(random.Random(f"{target}/{seed}/{number}"), here)
            if _peak_mib() - before > MEMORY_LIMIT_MIB:
                raise AssertionError(f"the case took over {MEMORY_LIMIT_MIB} MiB")
        except (Exception, HangError) as error:  # noqa: BLE001 - whatever it is, the report has it
            message = "".join(traceback.format_exception(error))
            content = error.content if isinstance(error, WrongError) else None
            yield Failure(target=target, seed=seed, number=number, message=message, content=content)
            continue
        shutil.rmtree(here)


@contextmanager
def _time_limit() -> Iterator[None]:
    def stop(_: int, frame: FrameType | None) -> None:
        raise HangError(f"over {CPU_LIMIT_S:g} s of processor time")

    previous = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)


def _peak_mib() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) >> 10
