"""One word for a check everywhere: command line, module, policy key, documents, tests."""

from __future__ import annotations

import re

import pytest

from modelctl.admission.policy import PolicyChecks
from modelctl.checks import CHECK_IDS, RELEASE_CHECKS, load_check
from modelctl.checks.base import CheckLimits
from tests.tooling.scripts import PACKAGE, ROOT


@pytest.mark.parametrize("check_id", CHECK_IDS)
def test_a_check_has_one_id_everywhere(check_id: str) -> None:
    module = check_id.replace("-", "_")
    check = load_check(check_id)
    assert check.id == check_id
    assert check.decides.strip()
    assert check.scope == ("release" if check_id in RELEASE_CHECKS else "tree")
    section = PolicyChecks.model_fields[module]
    assert (section.alias or module) == check_id
    assert isinstance(section.default, CheckLimits)
    assert (ROOT / "tests" / "checks" / f"test_{module}.py").is_file()
    headings = re.findall(r"^## (\S+)$", (ROOT / "docs" / "checks.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert check_id in headings
    assert f"[`{check_id}`](docs/checks.md#{check_id})" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_module_of_the_checks_belongs_to_a_listed_check() -> None:
    owners = {check_id.replace("-", "_") for check_id in CHECK_IDS}
    for path in (PACKAGE / "checks").glob("*.py"):
        if path.stem not in ("__init__", "base", "fitness", "limits"):
            assert any(path.stem == owner or path.stem.startswith(f"{owner}_") for owner in owners), path.name


def test_the_policy_has_no_section_without_a_check() -> None:
    keys = {field.alias or name for name, field in PolicyChecks.model_fields.items()}
    assert keys == set(CHECK_IDS)
