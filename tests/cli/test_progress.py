"""Progress is shown to people, and in lines to logs."""

from __future__ import annotations

import pytest

from modelctl.cli import progress as module
from modelctl.cli.progress import rate_text, shown


def test_a_log_gets_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 20))
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(clock)))
    with shown() as progress, progress.task("hash files", total=100, unit="bytes") as task:
        task.describe("model.safetensors")
        for amount in (25, 25, 50):
            task.advance(amount)
        progress.note("clamd started")
    lines = capsys.readouterr().err.splitlines()
    assert any("hash files 50% … 60 s, 60 s left," in line for line in lines)
    assert "· clamd started" in lines
    assert "hash files 100% done" in lines[-1]
    assert "model.safetensors" in lines[-1]


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with shown(quiet=True) as progress, progress.task("x", total=None, unit="files") as task:
        task.advance()
        task.describe("d")
        progress.note("n")
    assert capsys.readouterr().err == ""


def test_rates_are_for_people() -> None:
    assert rate_text(740e6, "bytes") == "740 MB/s"
    assert rate_text(3.21, "documents") == "3.2 documents/s"
    assert rate_text(1, "seconds") == ""
