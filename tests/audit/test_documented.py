"""docs/audit.md names every rule that a verification can find, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from modelctl.admission.report import EXIT_CODES
from modelctl.audit.reading import VERDICTS

ROOT = Path(__file__).resolve().parents[2]
MADE = (
    re.compile(r'rule="audit\.([a-z-]+)"'),
    re.compile(r'violation\(\s*"([a-z-]+)"'),
    re.compile(r'_violation\(\s*(?:claim|publication), "([a-z-]+)"'),
    re.compile(r'find\("([a-z-]+)"'),
    re.compile(r'"(bucket-[a-z]+)"'),
)


def test_every_rule_is_documented() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "pipeline" / "modelctl" / "audit").glob("*.py")]
    rules = {rule for text in texts for pattern in MADE for rule in pattern.findall(text)}
    documented = set(re.findall(r"`audit\.([a-z-]+)`", (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")))
    assert len(rules) > 40
    assert rules == documented


def test_verdicts_are_those_of_reports() -> None:
    assert set(VERDICTS) == set(EXIT_CODES)
