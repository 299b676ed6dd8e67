from __future__ import annotations

from collections.abc import Mapping

import pytest

from modelctl.tokenization.report import Report
from tests.tokenization.families import FAMILIES
from tests.tokenization.flaws import FLAWS
from tests.tokenization.many import examine_all, request_for, rules_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Report]:
    root = tmp_path_factory.mktemp("flaws")
    requests: dict[str, Mapping[str, object]] = {}
    for number, (name, flaw) in enumerate(FLAWS.items()):
        folder = FAMILIES[flaw.family](root / str(number))
        flaw.damage(folder)
        requests[name] = request_for(folder, **flaw.limits)
    return examine_all(requests)


@pytest.mark.parametrize("name", FLAWS)
def test_a_flawed_folder_is_refused_by_its_rule(name: str, reports: Mapping[str, Report]) -> None:
    report = reports[name]
    assert FLAWS[name].rule in rules_of(report), [problem.message for problem in report.problems]
    assert all(problem.remedy for problem in report.problems)
    assert all(problem.message.isprintable() for problem in report.problems)
