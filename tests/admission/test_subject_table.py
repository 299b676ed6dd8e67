"""The table of subjects: those that lost most first, all of them counted."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from modelctl.admission.report import CheckReport
from modelctl.admission.subject_table import SUBJECTS_SHOWN
from modelctl.admission.terminal import print_report
from modelctl.checks.base import Measurement
from tests.support.reports import a_check, a_report


def shown(check: CheckReport) -> str:
    stream = io.StringIO()
    print_report(a_report(check), Console(file=stream, width=120))
    return stream.getvalue()


def measured(*rows: tuple[str, int, int, int, int]) -> CheckReport:
    names = ("subject", "questions", "baseline_correct", "lost", "gained")
    measurements = tuple(
        Measurement(
            name="subject-change",
            value=row[4] - row[3],
            unit="documents",
            parameters=dict(zip(names, row, strict=True)),
        )
        for row in rows
    )
    return replace(a_check("quantization"), measurements=measurements)


def test_the_subject_that_lost_most_is_first_and_all_are_added_up() -> None:
    lines = shown(
        measured(("colours", 50, 40, 0, 1), ("sums", 100, 94, 30, 2), ("tides\x1b[31m", 50, 25, 5, 5))
    ).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("subject"))
    table = [line.split() for line in lines[start : start + 5]]
    assert table[0] == ["subject", "questions", "original", "served", "lost", "gained", "change"]
    assert table[1] == ["sums", "100", "94.0%", "66.0%", "30", "2", "-28"]
    assert table[2] == ["tides?[31m", "50", "50.0%", "50.0%", "5", "5", "+0"]
    assert table[3] == ["colours", "50", "80.0%", "82.0%", "0", "1", "+1"]
    assert table[4] == ["all", "200", "79.5%", "66.0%", "35", "8", "-27"]


def test_many_subjects_are_cut_and_the_cut_is_said() -> None:
    text = shown(measured(*((f"topic {number:02}", 10, 5, 1, 0) for number in range(57))))
    assert [line[:10] for line in text.splitlines() if line.startswith("topic")] == [
        f"topic {number:02}  " for number in range(SUBJECTS_SHOWN)
    ]
    assert f"and {57 - SUBJECTS_SHOWN} more subjects in the report" in text


def test_bits_per_byte_of_both_models_stand_below() -> None:
    check = measured(("sums", 100, 94, 30, 2))
    rise = Measurement(
        name="bits-per-byte-rise", value=0.1, unit="bits", parameters={"baseline": 1.4, "candidate": 1.5}
    )
    text = shown(replace(check, measurements=(*check.measurements, rise)))
    assert "bits per byte of the shipped texts: original 1.4, served 1.5" in text


def test_a_check_without_subjects_has_no_table() -> None:
    assert "original" not in shown(a_check("integrity"))
