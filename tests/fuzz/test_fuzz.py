"""A bounded number of hostile cases for each reader: no traceback, no hang, no pass.

More of them: `python -m tests.fuzz --cases 100000 --seed 7`.
"""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest

from tests.fuzz.mutate import mutate
from tests.fuzz.runner import DEFAULT_SEED, WrongError, run_cases
from tests.fuzz.targets import TARGETS


@pytest.mark.slow
@pytest.mark.parametrize("target", [pytest.param(name, marks=TARGETS[name].marks) for name in TARGETS])
def test_no_traceback_no_hang_no_pass(target: str, tmp_path: Path) -> None:
    case, cases, _ = TARGETS[target]
    for failure in run_cases(target, case, tmp_path, seed=DEFAULT_SEED, first=0, cases=cases):
        again = f"python -m tests.fuzz --target {target} --seed {failure.seed} --first {failure.number} --cases 1"
        pytest.fail(f"{failure.message}\n{again}")


def test_the_same_seed_draws_the_same_cases() -> None:
    one, two = (mutate(random.Random("x"), [b"some bytes", b"others"]) for _ in range(2))
    assert one == two


def test_whatever_goes_wrong_is_a_failure_that_can_be_brought_back(tmp_path: Path) -> None:
    def case(draw: random.Random, folder: Path) -> bytes | None:
        number = draw.randrange(1 << 30)
        if number % 2:
            raise WrongError("wrong", b"%d" % number)
        return None

    failures = list(run_cases("odd", case, tmp_path, seed=1, first=0, cases=20))
    assert 0 < len(failures) < 20
    again = list(run_cases("odd", case, tmp_path / "again", seed=1, first=failures[0].number, cases=1))
    assert again[0].content == failures[0].content


def test_a_hang_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.runner.CPU_LIMIT_S", 0.05)

    def case(_: random.Random, __: Path) -> bytes | None:
        while True:
            with suppress(Exception):  # what a program with too broad a handler does
                sum(range(1000))

    assert "processor time" in next(iter(run_cases("loop", case, tmp_path, seed=1, first=0, cases=1))).message


def test_memory_out_of_bounds_is_a_failure(tmp_path: Path) -> None:
    def case(_: random.Random, __: Path) -> bytes | None:
        return bytes(bytearray(b"x") * (300 << 20))[:1]

    failures = list(run_cases("memory", case, tmp_path, seed=1, first=0, cases=1))
    assert "MiB" in failures[0].message
