"""Runs one hostile step in a fork of the child with its own time and memory limit, and says how it ended.

The child stays in control: what hangs, eats memory or crashes is the fork, and each of these is an answer about the
model, not a failure of the check. A fork answers with one JSON value over a pipe.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import JsonValue

MAX_ANSWER_BYTES = 32 << 20
_PAGE_BYTES = resource.getpagesize()


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What a step may use: seconds, and bytes of address space beyond what the child has already."""

    time_limit_s: float
    memory_limit_bytes: int
    waits: float = 1
    """How many times `time_limit_s` may pass by the clock while less of the processor's time has been used: for steps
    of which a slow answer is a finding, since a busy machine is not the model's fault."""


@dataclass(frozen=True, kw_only=True)
class Answered:
    """The step ended by itself; `value` is what it returned."""

    value: JsonValue


@dataclass(frozen=True, kw_only=True)
class Exceeded:
    """The step ran out of what it may use; `limit` words which limit ("5 s of time")."""

    limit: str


@dataclass(frozen=True, kw_only=True)
class Crashed:
    """The step's process died by a signal that its own code raised, or native code gave up; `how` words it."""

    how: str


Ending = Answered | Exceeded | Crashed


def run_bounded(step: Callable[[], JsonValue], bounds: Bounds) -> Ending:
    """Run `step` in a fork within `bounds`.

    Raises `RuntimeError` with the traceback when the step itself has a fault.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _step_process(step, writer, bounds)
    os.close(writer)
    content, in_time = _read_all(reader, bounds.time_limit_s * bounds.waits)
    if not in_time:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    over_time = Exceeded(limit=f"{bounds.time_limit_s:g} s of time")
    if not in_time:
        return over_time
    if os.WIFSIGNALED(status):
        ended_by = os.WTERMSIG(status)
        if ended_by == signal.SIGXCPU:
            return over_time
        if ended_by == signal.SIGKILL:
            return Exceeded(limit="the machine's memory")
        return Crashed(how=signal.Signals(ended_by).name)
    if len(content) > MAX_ANSWER_BYTES:
        return Exceeded(limit=f"{MAX_ANSWER_BYTES >> 20} MiB of answer")
    if not content:
        return Exceeded(limit=f"{bounds.memory_limit_bytes >> 20} MiB of memory")
    message = json.loads(content)
    if "panic" in message:
        return Crashed(how=message["panic"])
    if "fault" in message:
        raise RuntimeError(message["fault"])
    return Answered(value=message["value"])


def limit_address_space(more_bytes: int) -> None:
    """Let this process and its forks grow by at most `more_bytes` of address space over what they have now."""
    with open("/proc/self/statm", encoding="ascii") as stream:  # noqa: PTH123 - one read of a kernel file
        now = int(stream.read().split()[0]) * _PAGE_BYTES
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = now + more_bytes
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))


def _step_process(step: Callable[[], JsonValue], writer: int, bounds: Bounds) -> None:
    """The fork's whole life; it never returns into the caller's stack."""
    code = 1
    try:
        limit_address_space(bounds.memory_limit_bytes)
        cpu_s = int(bounds.time_limit_s) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        try:
            message = json.dumps({"value": step()})
        except MemoryError:
            message = ""
        except BaseException as error:  # noqa: BLE001 - the fork's outermost frame: every fault becomes an answer
            if (
                type(error).__name__ == "PanicException"
            ):  # what a failed assertion in Rust becomes; it has no public name
                message = json.dumps({"panic": str(error)})
            else:
                message = json.dumps({"fault": traceback.format_exc()})
        with os.fdopen(writer, "w", encoding="utf-8") as stream:
            stream.write(message)
        code = 0
    finally:
        sys.stderr.flush()
        os._exit(code)


def _read_all(reader: int, time_limit_s: float) -> tuple[bytes, bool]:
    """Everything the fork writes, and whether it closed its end in time."""
    deadline = time.monotonic() + time_limit_s
    content = bytearray()
    with os.fdopen(reader, "rb", buffering=0) as stream:
        while len(content) <= MAX_ANSWER_BYTES:
            patience_s = deadline - time.monotonic()
            if patience_s <= 0 or not select.select([stream], [], [], patience_s)[0]:
                return bytes(content), False
            block = stream.read(1 << 20)
            if not block:
                break
            content += block
    return bytes(content), True
