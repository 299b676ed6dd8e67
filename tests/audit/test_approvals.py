"""Who let a proposal in, however it was merged."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelctl.audit.approvals import pull_request
from modelctl.audit.timeline import Event, timeline
from tests.support.history import Registry, a_registry

RITA = ("-c", "user.name=Rita", "-c", "user.email=rita@example.org")
MESSAGE = "Propose tiny (#12)\n\nReviewed-by: Rob <rob@example.org>\nSigned-off-by: Test Person <test@example.org>"


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    """A proposal on a branch, with the main branch ahead of where it began."""
    registry = a_registry(tmp_path_factory.mktemp("proposed") / "registry")
    registry.git.run("checkout", "--quiet", "-b", "proposal")
    registry.propose()
    registry.git.run("checkout", "--quiet", "main")
    registry.propose("other")
    return registry


@pytest.fixture
def registry(laid_out: Registry, tmp_path: Path) -> Registry:
    return laid_out.copy(tmp_path / "registry")


def decision(registry: Registry) -> Event:
    (found,) = [
        event
        for event in timeline(registry.root, name="tiny", version="1.0.0")
        if event.kind in ("approved", "unreviewed")
    ]
    return found


def test_a_merge_commit_approves_what_it_brings(registry: Registry) -> None:
    merge = (
        "merge",
        "--quiet",
        "--no-ff",
        "--message",
        MESSAGE.replace("Propose tiny (#12)", "Merge pull request #12"),
    )
    registry.git.run(*RITA, *merge, "proposal")
    event = decision(registry)
    assert (event.kind, event.who, event.commit) == ("approved", "Rita <rita@example.org>", registry.git.head())
    assert event.reviewers == ("Reviewed-by: Rob <rob@example.org>",)
    assert event.detail == "merged, #12"


def test_a_squash_merge_approves_itself(registry: Registry) -> None:
    registry.git.run("merge", "--quiet", "--squash", "proposal")
    author = ("--author", "Test Person <test@example.org>")
    registry.git.run(*RITA, "commit", "--quiet", "--message", MESSAGE, *author)
    event = decision(registry)
    assert (event.kind, event.who) == ("approved", "Rita <rita@example.org>")
    assert event.reviewers == ("Reviewed-by: Rob <rob@example.org>",)
    assert event.detail == "on the main line, #12"
    proposed = next(item for item in timeline(registry.root, name="tiny") if item.kind == "proposed")
    assert proposed.who == "Test Person <test@example.org>"


def test_a_rebase_merge_names_who_rebased(registry: Registry) -> None:
    registry.git.run("checkout", "--quiet", "proposal")
    registry.git.run(*RITA, "rebase", "--quiet", "main")
    registry.git.run("checkout", "--quiet", "main")
    registry.git.run("merge", "--quiet", "--ff-only", "proposal")
    event = decision(registry)
    assert (event.kind, event.who, event.reviewers) == ("approved", "Rita <rita@example.org>", ())


def test_where_git_names_nobody_else_nobody_approved(registry: Registry) -> None:
    registry.git.run("merge", "--quiet", "--no-ff", "--message", "Merge", "proposal")
    event = decision(registry)
    assert event.kind == "unreviewed"
    assert "nobody but its author" in event.detail


@pytest.mark.parametrize(
    ("subject", "number"),
    [
        ("Merge pull request #12 from ann/side", "#12"),
        ("Propose tiny (#7)", "#7"),
        ("Propose tiny", None),
        ("Fix #3 in the demo", None),
    ],
)
def test_the_number_of_a_pull_request(subject: str, number: str | None) -> None:
    assert pull_request(subject) == number
