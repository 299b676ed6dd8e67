"""What served when, on which evidence."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from modelctl.audit.history import read_history
from modelctl.audit.serving import commit_at, lanes, serving_at
from modelctl.audit.timeline import events_of
from modelctl.errors import InputError
from modelctl.rollout.steering import Order, abort, promote
from tests.support.history import Registry, a_registry


def on(monkeypatch: pytest.MonkeyPatch, day: int) -> None:
    for name in ("GIT_COMMITTER_DATE", "GIT_AUTHOR_DATE"):
        monkeypatch.setenv(name, f"2026-11-{day:02}T10:00:00+00:00")


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    """1.0.0 since the second, promoted; 2.0.0 from the fifth to the seventh, aborted; taken down on the ninth."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        on(monkeypatch, 1)
        registry = a_registry(tmp_path_factory.mktemp("lived") / "registry")
        for version, day in (("1.0.0", 2), ("2.0.0", 5)):
            on(monkeypatch, day)
            registry.propose(version=version)
            registry.publish(version=version, content=version)
            registry.roll_out(f"tiny@{version}", reason=f"because of {version}")
            if version == "1.0.0":
                promote(registry.root, Order(name="tiny", environment="prod"))
        on(monkeypatch, 7)
        abort(registry.root, Order(name="tiny", environment="prod", reason="wrong language"))
        on(monkeypatch, 9)
        registry.git.run("rm", "-r", "--quiet", str(registry.deployment()))
        registry.commit("Take it down")
    return registry


def served(registry: Registry, day: int) -> list[tuple[str, str]]:
    history = read_history(registry.root)
    commit = commit_at(history, datetime.datetime(2026, 11, day, 12, tzinfo=datetime.UTC))
    return [(item.release, item.role) for item in serving_at(history, events_of(history), commit)]


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        (1, []),
        (2, [("tiny@1.0.0", "stable")]),
        (4, [("tiny@1.0.0", "stable")]),
        (5, [("tiny@1.0.0", "stable"), ("tiny@2.0.0", "canary")]),
        (8, [("tiny@1.0.0", "stable")]),
        (9, []),
    ],
)
def test_what_served_at_a_moment(lived: Registry, day: int, expected: list[tuple[str, str]]) -> None:
    assert served(lived, day) == expected


def test_the_evidence_behind_it(lived: Registry) -> None:
    history = read_history(lived.root)
    commit = commit_at(history, datetime.datetime(2026, 11, 6, tzinfo=datetime.UTC))
    _, canary = serving_at(history, events_of(history), commit, "prod")
    assert (canary.reason, canary.since) == ("because of 2.0.0", "2026-11-05T10:00:00+00:00")
    assert (canary.verdict, canary.policy, canary.tag) == ("admitted", "demo", "tiny@v2.0.0")
    assert canary.published
    assert canary.evidence
    assert len(canary.checks) == 7
    assert serving_at(history, events_of(history), commit, "test") == []


def test_before_the_first_commit_nobody_can_say(lived: Registry) -> None:
    with pytest.raises(InputError, match="before the first commit"):
        commit_at(read_history(lived.root), datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))


def test_lanes_say_from_when_to_when(lived: Registry) -> None:
    (spans,) = lanes(read_history(lived.root)).values()
    told = [(span.release, span.begin[8:10], span.end and span.end[8:10], span.promoted) for span in spans]
    assert told == [
        ("tiny@1.0.0", "02", "05", True),
        ("tiny@2.0.0", "05", "07", False),
        ("tiny@1.0.0", "07", "09", True),
    ]


def test_a_rollout_on_a_branch_serves_when_it_is_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, 1)
    registry = a_registry(tmp_path / "registry")
    registry.propose()
    registry.publish()
    registry.git.run("checkout", "--quiet", "-b", "rollout")
    on(monkeypatch, 2)
    registry.roll_out()
    registry.git.run("checkout", "--quiet", "main")
    on(monkeypatch, 5)
    registry.git.run("merge", "--quiet", "--no-ff", "--no-edit", "rollout")
    assert served(registry, 3) == []
    assert served(registry, 5) == [("tiny@1.0.0", "stable")]
