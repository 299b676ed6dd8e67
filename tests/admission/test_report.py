"""The report's JSON is deterministic, complete and strictly read."""

from __future__ import annotations

import json

import pytest

from modelctl.admission.report import Report
from modelctl.admission.terminal import print_report, printable
from modelctl.errors import InputError
from tests.admission.formats.reports import full_report
from tests.support.reports import a_check, a_report
from tests.tooling.scripts import ROOT


@pytest.mark.parametrize("report", [a_report(), full_report()])
def test_a_report_is_what_its_published_schema_says(report: Report) -> None:
    import jsonschema

    schema = json.loads((ROOT / "docs" / "schemas" / "report.v1.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    plain = json.loads(report.to_json())
    validator.validate(plain)
    plain["checks"][0]["outcome"] = "fine"
    assert not validator.is_valid(plain)


def test_it_comes_back_as_it_was() -> None:
    report = a_report(a_check("integrity", "failed"), a_check("malware", "error"), a_check("code", "skipped"))
    text = report.to_json()
    assert Report.from_json(text, origin="x") == report
    assert Report.from_json(text, origin="x").to_json() == text


def test_the_stable_part_is_there() -> None:
    plain = json.loads(a_report(a_check("integrity", "failed"), verdict="refused").to_json())
    assert plain["verdict"] == "refused"
    assert plain["model"]["source_digest"].startswith("sha256:")
    assert plain["model"]["served_digest"].startswith("sha256:")
    assert plain["policy"]["digest"].startswith("sha256:")
    check = plain["checks"][0]
    assert {"id", "outcome", "findings", "measurements", "tools", "duration_s"} <= check.keys()
    assert {"rule", "path", "message", "remedy"} <= check["findings"][0].keys()


@pytest.mark.parametrize("change", [{"verdict": "fine"}, {"schema_version": "99"}, {"checks": None}])
def test_what_is_no_report_is_named(change: dict[str, object]) -> None:
    plain = json.loads(a_report().to_json()) | change
    with pytest.raises(InputError, match=r"admission\.json: not a report: '(verdict|schema_version|checks)"):
        Report.from_json(json.dumps(plain), origin="admission.json")


@pytest.mark.parametrize("width", [60, 100, 160])
def test_a_person_sees_coverage_verdict_findings_and_remedies(width: int) -> None:
    from io import StringIO

    from rich.console import Console

    checks = (
        a_check("integrity", "failed"),
        a_check("malware", "error"),
        a_check("quantization", "skipped"),
        a_check("code", "passed", required=False),
    )
    out = StringIO()
    print_report(
        a_report(*checks, verdict="refused", partial=True, notice="small numbers only"),
        Console(file=out, width=width, markup=False, highlight=False),
    )
    text = " ".join(out.getvalue().split())
    order = [
        "tiny@1.0.0",
        "small numbers only",
        "3 of 3",
        "REFUSED",
        "integrity.hash",
        "fetch it again",
        "clamd is gone",
    ]
    positions = [text.index(words) for words in order]
    assert positions == sorted(positions)
    for words in ("Partial", "nothing to compare", "start it", "(optional)"):
        assert words in text


def test_a_hostile_name_can_not_move_the_cursor() -> None:
    assert printable("a\x1b[2Jb\u202ec\n") == "a\\x1b[2Jb\\u202ec\n"
    assert printable("größe 你好 🙂") == "größe 你好 🙂"
