"""The bar of a load ends where the load's time ends, however long its last answers take."""

from __future__ import annotations

from modelctl.serving.load import Tick
from modelctl.serving.load_bar import LoadBar


class _Shown:
    def __init__(self) -> None:
        self.done = 0.0
        self.words = ""

    def advance(self, amount: float = 1) -> None:
        self.done += amount

    def describe(self, detail: str) -> None:
        self.words = detail


def _tick(elapsed_s: float, answered: int) -> Tick:
    return Tick(elapsed_s=elapsed_s, answered=answered, failed=1, metrics=None)


def test_it_follows_the_time_and_stays_at_its_end() -> None:
    shown = _Shown()
    bar = LoadBar(shown, end_s=24)
    for elapsed_s, wanted in ((10, 10), (8, 10), (20, 20), (31, 24)):
        bar(_tick(elapsed_s, answered=elapsed_s))
        assert shown.done == wanted
    assert shown.words == "31 answered, 1 failed"
