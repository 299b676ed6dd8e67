from __future__ import annotations

import faulthandler
import gc
import os
import signal
import time

import psutil
import pytest
from pydantic import JsonValue

from modelctl.tokenization.bounded import Answered, Bounds, Crashed, Exceeded, run_bounded

BOUNDS = Bounds(time_limit_s=60, memory_limit_bytes=256 << 20)


def test_a_step_answers() -> None:
    assert run_bounded(lambda: {"a": [1, "ü\x1b"]}, BOUNDS) == Answered(value={"a": [1, "ü\x1b"]})


def test_an_endless_step_is_ended_in_time() -> None:
    def step() -> JsonValue:
        while True:
            pass

    began = time.monotonic()
    ending = run_bounded(step, Bounds(time_limit_s=0.3, memory_limit_bytes=64 << 20))
    assert ending == Exceeded(limit="0.3 s of time")
    assert time.monotonic() - began < 20


def test_a_sleeping_step_is_ended_in_time() -> None:
    def step() -> JsonValue:
        time.sleep(60)
        return None

    assert isinstance(run_bounded(step, Bounds(time_limit_s=0.2, memory_limit_bytes=64 << 20)), Exceeded)


def test_memory_is_limited_however_it_is_taken() -> None:
    def at_once() -> JsonValue:
        return len(b"x" * (1 << 30))

    def swallowed() -> JsonValue:
        pieces: list[bytes] = []
        while True:
            pieces.append(bytes(1 << 24))

    for step in (at_once, swallowed):
        assert run_bounded(step, BOUNDS) == Exceeded(limit="256 MiB of memory")


def test_a_crash_is_told_from_an_answer() -> None:
    def step() -> JsonValue:
        faulthandler.disable()  # or the dying fork prints pytest's stack
        os.kill(os.getpid(), signal.SIGSEGV)
        return None

    assert run_bounded(step, BOUNDS) == Crashed(how="SIGSEGV")


def test_a_fault_of_the_step_itself_is_raised() -> None:
    def step() -> JsonValue:
        raise KeyError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        run_bounded(step, BOUNDS)


def test_a_panic_of_native_code_is_a_crash() -> None:
    class PanicException(BaseException):
        pass

    def step() -> JsonValue:
        raise PanicException("index out of bounds")

    assert run_bounded(step, BOUNDS) == Crashed(how="index out of bounds")


def test_no_process_and_no_descriptor_is_left() -> None:
    def held() -> tuple[int, list[int]]:
        gc.collect()  # what earlier tests left open would be closed at any moment
        process = psutil.Process()
        return process.num_fds(), [child.pid for child in process.children()]

    before = held()
    for _ in range(5):
        run_bounded(lambda: 1, BOUNDS)
    run_bounded(lambda: time.sleep(9), Bounds(time_limit_s=0.1, memory_limit_bytes=64 << 20))
    assert held() == before
