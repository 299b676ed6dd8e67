"""A check's fault, its time limit and its silence become outcomes; nothing it saw is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import pytest

from modelctl.admission.evidence import EvidenceFolder
from modelctl.admission.report import CheckReport
from modelctl.admission.runner import CheckRun
from modelctl.checks.base import CheckContext, CheckLimits, Coverage, Finding, Measurement, Observation
from modelctl.errors import CannotDecideError, DoesNotApplyError
from modelctl.isolation import Sandbox
from modelctl.model.release import Serving
from modelctl.model.sources import Snapshot
from modelctl.model.tree import scan_tree
from modelctl.progress import SILENT

Behaviour = Callable[[CheckContext[CheckLimits]], Observation]


class FakeCheck:
    """A check that does what the test says."""

    id: ClassVar[str] = "integrity"
    decides: ClassVar[str] = "nothing"
    scope: ClassVar[Literal["tree", "release"]] = "tree"
    headline: ClassVar[tuple[str, ...]] = ("deciding", "absent")

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour

    def run(self, context: CheckContext[CheckLimits]) -> Observation:
        return self._behaviour(context)


def run_check(tmp_path: Path, *behaviours: Behaviour, time_limit_s: int = 30) -> CheckReport:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    tree = scan_tree(model)
    snapshot = Snapshot(kind="folder", description="folder", tree=tree, upstream=None)
    run = CheckRun(FakeCheck(behaviours[0]), EvidenceFolder(tmp_path / "evidence", "integrity"))
    for role, behaviour in zip(("source", "served"), behaviours, strict=False):
        run.check = FakeCheck(behaviour)
        context = CheckContext(
            limits=CheckLimits(time_limit_s=time_limit_s),
            role=cast("Literal['source', 'served']", role),
            tree=tree,
            source=snapshot,
            served=tree,
            quantization=None,
            baseline=None,
            serving=Serving(),
            resources=cast("Any", Sandbox()),
            evidence=run.evidence,
            progress=SILENT,
            workdir=tmp_path,
            cache=tmp_path,
            root=tmp_path,
        )
        run.run(context, both_trees=len(behaviours) > 1)
    return run.report(limits=CheckLimits())


def good(context: CheckContext[CheckLimits]) -> Observation:
    return Observation(coverage=(Coverage(unit="files", seen=1, total=1),), tools={context.role: "1"})


def bad(context: CheckContext[CheckLimits]) -> Observation:
    return Observation(coverage=(), findings=(Finding(rule="integrity.hash", message="m", remedy="r"),))


def raising(error: Exception) -> Behaviour:
    def behaviour(_context: CheckContext[CheckLimits]) -> Observation:
        raise error

    return behaviour


def test_both_trees_are_kept_apart(tmp_path: Path) -> None:
    report = run_check(tmp_path, good, bad)
    assert report.outcome == "failed"
    assert report.findings[0].tree == "served"
    assert report.coverage[0].tree == "source"
    assert report.tools == {"source": "1"}


def test_a_finding_is_not_lost_when_the_check_then_fails(tmp_path: Path) -> None:
    report = run_check(tmp_path, bad, raising(CannotDecideError("clamd is gone", remedy="start it")))
    assert report.outcome == "failed"
    assert report.findings[0].rule == "integrity.hash"
    assert report.undecided[0].reason == "clamd is gone"


def test_a_fault_is_an_error_with_a_traceback_in_the_evidence(tmp_path: Path) -> None:
    report = run_check(tmp_path, raising(ZeroDivisionError("oops")))
    assert report.outcome == "error"
    assert "ZeroDivisionError: oops" in report.undecided[0].reason
    assert [item.path for item in report.evidence] == ["integrity/traceback.txt"]


def test_the_headline_comes_first_and_nothing_is_lost(tmp_path: Path) -> None:
    figures = tuple(Measurement(name=name, value=n) for n, name in enumerate(("other", "deciding", "deciding")))
    report = run_check(tmp_path, lambda _: Observation(coverage=(), measurements=figures))
    assert [(item.name, item.value) for item in report.measurements] == [("deciding", 1), ("other", 0), ("deciding", 2)]


def test_silence_is_an_error(tmp_path: Path) -> None:
    report = run_check(tmp_path, lambda _: Observation(coverage=()))
    assert report.outcome == "error"
    assert "looked at nothing" in report.undecided[0].reason


def test_does_not_apply_is_a_skip_with_its_reason(tmp_path: Path) -> None:
    report = run_check(tmp_path, raising(DoesNotApplyError("not quantised")))
    assert (report.outcome, report.skipped_because) == ("skipped", "not quantised")


def test_the_time_limit_holds(tmp_path: Path) -> None:
    def slow(_context: CheckContext[CheckLimits]) -> Observation:
        time.sleep(30)
        return good(_context)

    began = time.monotonic()
    report = run_check(tmp_path, slow, time_limit_s=1)
    assert time.monotonic() - began < 25
    assert report.outcome == "error"
    assert "time limit of 1 s" in report.undecided[0].reason


def test_evidence_names_have_no_path(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="path"):
        EvidenceFolder(tmp_path, "integrity").keep("../x", b"")
