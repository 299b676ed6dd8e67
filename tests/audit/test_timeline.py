from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

import pytest

from modelctl.admission.report import WaivedFinding
from modelctl.audit.timeline import Event, timeline
from modelctl.audit.view import View
from modelctl.checks.base import Finding
from modelctl.errors import InputError
from tests.support.history import POLICY, Registry, a_registry, an_admission
from tests.support.reports import a_check, a_report


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    """Refused once, mended, published, rolled out; another release beside it; then a stricter policy."""
    registry = a_registry(tmp_path_factory.mktemp("lived") / "registry")
    registry.propose()
    report = a_report(a_check("malware", "failed"), verdict="refused")
    (registry.folder() / "admission.json").write_text(report.to_json(), encoding="utf-8")
    registry.commit("Keep the refusal")
    registry.publish()
    registry.propose("other")
    registry.roll_out(reason="first customer")
    (registry.root / "policies" / "demo.yaml").write_text(f"{POLICY}# stricter\n", encoding="utf-8")
    registry.commit("Ask for more")
    return registry


@pytest.fixture
def registry(lived: Registry, tmp_path: Path) -> Registry:
    return lived.copy(tmp_path / "registry")


def kinds(events: list[Event]) -> list[str]:
    return [event.kind for event in events]


def test_the_life_of_a_release_from_git_alone(registry: Registry) -> None:
    events = timeline(registry.root, name="tiny")
    assert kinds(events) == [
        "policy-changed",
        "policy-changed",
        "proposed",
        "unreviewed",
        "refused",
        "admitted",
        "published",
        "rolled-out",
        "policy-changed",
    ]
    _, _, proposed, _, refused, admitted, published, rolled_out, _ = events
    assert proposed.who == "Test Person <test@example.org>"
    assert refused.detail == "not passed: malware"
    assert (admitted.policy, admitted.machine) == ("demo", "box")
    assert (published.tag, published.digest) == ("tiny@v1.0.0", admitted.digest)
    assert admitted.commit == published.commit
    assert (rolled_out.environment, rolled_out.digest) == ("prod", published.digest)
    assert rolled_out.reason == "first customer"
    assert rolled_out.commit == registry.git.run("rev-parse", "HEAD~1").strip()


def test_other_releases_are_left_out_when_one_is_asked_for(registry: Registry) -> None:
    assert {event.release for event in timeline(registry.root, name="tiny")} == {"tiny@1.0.0", None}
    assert "other@1.0.0" in {event.release for event in timeline(registry.root)}
    assert kinds(timeline(registry.root, name="tiny", version="9.0.0")) == ["policy-changed"]


def test_one_environment(registry: Registry) -> None:
    assert kinds(timeline(registry.root, env="prod")) == ["environment-changed", "rolled-out"]
    assert timeline(registry.root, env="test") == []


def test_since(registry: Registry) -> None:
    tomorrow = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    yesterday = tomorrow - datetime.timedelta(days=2)
    assert timeline(registry.root, since=tomorrow) == []
    assert timeline(registry.root, since=yesterday) == timeline(registry.root)


def test_a_later_change_of_a_record_stands_out(registry: Registry) -> None:
    registry.edit(registry.folder() / "record.yaml", "2026-01-02", "2026-01-03")
    registry.commit("Tidy up")
    assert timeline(registry.root)[-1].kind == "record-changed"


def test_a_report_that_can_not_be_read_is_said_to_be_so(registry: Registry) -> None:
    (registry.folder() / "admission.json").write_text("{", encoding="utf-8")
    registry.commit("Break it")
    event = timeline(registry.root)[-1]
    assert event.kind == "unreadable"
    assert "not a report" in event.detail


def test_taking_a_release_down_is_an_event(registry: Registry) -> None:
    registry.git.run("rm", "-r", "--quiet", str(registry.deployment()))
    registry.commit("Take it down")
    assert timeline(registry.root)[-1].kind == "taken-down"


def test_the_registry_may_be_a_folder_of_a_larger_repository(registry: Registry) -> None:
    inner = registry.root / "ml"
    inner.mkdir()
    for name in ("registry", "gitops", "policies"):
        (registry.root / name).rename(inner / name)
    registry.commit("Move the registry into a folder")
    moved = kinds(timeline(inner))
    assert {"proposed", "admitted", "published", "rolled-out"} <= set(moved)


def test_a_reverted_release_and_a_reverted_rollout_are_told_as_such(registry: Registry) -> None:
    registry.succeed(1, content="better")
    rollout = registry.git.head()
    registry.git.run("revert", "--no-edit", "HEAD")
    back = timeline(registry.root, env="prod")[-1]
    assert (back.kind, back.release, back.environment) == ("reverted", "tiny@1.0.0", "prod")
    assert back.commit == registry.git.head() != rollout
    registry.git.run("revert", "--no-edit", f"{rollout}~1")  # the publication of 1.1.0
    registry.git.run("revert", "--no-edit", f"{rollout}~2")  # its proposal
    events = timeline(registry.root, name="tiny", version="1.1.0")
    assert kinds(events)[-3:] == ["record-changed", "record-changed", "withdrawn"]
    assert {event.detail for event in events[-3:-1]} == {
        "removed registry/tiny/1.1.0/admission.json", "removed registry/tiny/1.1.0/record.yaml",
    }  # fmt: skip
    assert events[-1].detail.startswith('Revert "Propose tiny@1.1.0"')
    assert "published" in kinds(events)


def test_a_renamed_folder_is_told_with_where_it_came_from(registry: Registry) -> None:
    registry.git.run("mv", "registry/tiny", "registry/small")
    commit = registry.commit("Give it a better name")
    events = [event for event in timeline(registry.root) if event.commit == commit]
    assert [(event.kind, event.release) for event in events if event.kind == "moved"] == [("moved", "small@1.0.0")]
    assert "from registry/tiny/1.0.0" in {event.detail for event in events}
    assert ("record-changed", "moved from registry/tiny/1.0.0/record.yaml") in {
        (event.kind, event.detail) for event in events
    }
    assert "withdrawn" not in kinds(events)
    assert "published" not in kinds(events)  # another name for the same bytes is no publication


def test_a_waived_release_names_the_waiver_and_its_people_before_it_is_admitted(registry: Registry) -> None:
    waiver = registry.root / "policies" / "waivers" / "old-code.yaml"
    waiver.parent.mkdir()
    waiver.write_text("# reviewed\n", encoding="utf-8")
    registry.commit("Let one finding stand")
    registry.propose(version="2.0.0")
    finding = Finding(rule="code.risky-call", message="os.system", remedy="remove it", path="a.py")
    waived = WaivedFinding(
        finding=finding, waiver="policies/waivers/old-code.yaml", reason="never called", owner="ann", approver="rob",
        expires="2027-01-01",
    )  # fmt: skip
    digest = registry.write_record(version="2.0.0").served.tree_digest
    report = an_admission(registry.root, "tiny@2.0.0", digest)
    report = replace(report, checks=(replace(report.checks[0], waived=(waived,)), *report.checks[1:]))
    registry.write_record(version="2.0.0", report=report)
    registry.commit("Publish tiny@2.0.0", Model_Release="tiny@2.0.0", Model_Digest=digest)
    events = timeline(registry.root, name="tiny", version="2.0.0")
    assert kinds(events)[-3:] == ["waived", "admitted", "published"]
    told = events[-3]
    assert (told.waiver, told.reason) == ("policies/waivers/old-code.yaml", "never called")
    assert told.detail == "code.risky-call in a.py, ann answers, rob agreed, until 2027-01-01"
    assert "added policies/waivers/old-code.yaml" in {event.detail for event in events}


@pytest.mark.parametrize(
    ("view", "words", "remedy"),
    [
        (View(name="tinny"), "no commit of this history speaks of a release of tinny", "did you mean tiny?"),
        (View(name="tiny", version="1.0.1"), "speaks of tiny@1.0.1", "did you mean tiny@1.0.0?"),
        (View(env="prd"), "speaks of environment 'prd'", "did you mean prod?"),
        (View(name="zzz"), "speaks of a release of zzz", "there are: other, tiny"),
    ],
)
def test_a_name_that_no_commit_speaks_of_is_no_empty_answer(
    registry: Registry, view: View, words: str, remedy: str
) -> None:
    with pytest.raises(InputError, match=words) as caught:
        view.require_known(timeline(registry.root))
    assert caught.value.remedy == remedy
    View(name="tiny", version="1.0.0", env="prod").require_known(timeline(registry.root))
