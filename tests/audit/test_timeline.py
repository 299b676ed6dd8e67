from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from modelctl.audit.timeline import Event, timeline
from tests.support.history import Registry, a_registry
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
    (registry.root / "policies" / "demo.yaml").write_text("# stricter\n", encoding="utf-8")
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
