"""How a source was named, held against what the policy demands."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelctl.model.listing import Upstream
from modelctl.model.provenance import provenance_problems
from modelctl.model.sources import Snapshot, resolve_source
from modelctl.model.tree import Tree
from tests.support.hub import LocalHub

COMMIT = "3" * 40


def snapshot(repo_id: str | None = "acme/tiny", asked: str | None = "main", upstream: str | None = None) -> Snapshot:
    return Snapshot(
        kind="hub",
        description="Hub",
        tree=Tree(root=Path(), files=()),
        upstream=Upstream(repo_id=upstream, commit=COMMIT, files={}) if upstream else None,
        repo_id=repo_id,
        asked_revision=asked,
        commit=COMMIT if repo_id else None,
    )


def kinds(found: Snapshot, *, pinned: bool = False, owners: tuple[str, ...] = ()) -> list[str]:
    return [problem.kind for problem in provenance_problems(found, require_pinned=pinned, owners=owners)]


@pytest.mark.parametrize("asked", ["main", "v1.0", "refs/pr/3", COMMIT[:39], COMMIT.replace("3", "F")])
def test_a_branch_a_tag_and_a_shortened_commit_are_not_pinned(asked: str) -> None:
    (problem,) = provenance_problems(snapshot(asked=asked), require_pinned=True, owners=())
    assert problem.kind == "unpinned"
    assert f"asked for at '{asked}', which is commit {COMMIT} now" in problem.detail
    assert problem.remedy == f"name the commit: acme/tiny@{COMMIT}"
    assert kinds(snapshot(asked=asked)) == []


def test_a_full_commit_is_pinned() -> None:
    assert kinds(snapshot(asked=COMMIT), pinned=True) == []


@pytest.mark.parametrize(
    ("repo_id", "owners", "wanted"),
    [
        ("acme/tiny", ("acme",), []),
        ("acme/tiny", ("other", "acme"), []),
        ("acme/tiny", (), []),
        ("acme/tiny", ("other",), ["owner"]),
        ("acme-labs/tiny", ("acme",), ["owner"]),
        ("ACME/tiny", ("acme",), ["owner"]),
        ("acme", ("acme",), ["owner"]),
        ("gpt2", ("acme",), ["owner"]),
    ],
)
def test_an_owner_is_on_the_list_or_a_finding(repo_id: str, owners: tuple[str, ...], wanted: list[str]) -> None:
    assert kinds(snapshot(repo_id), owners=owners) == wanted


def test_the_upstream_of_a_folder_is_held_to_the_same() -> None:
    folder = snapshot(None, None, upstream="stranger/tiny")
    assert kinds(folder, pinned=True, owners=("acme",)) == ["owner"]
    assert kinds(snapshot("acme/tiny", COMMIT, upstream="stranger/tiny"), owners=("acme",)) == ["owner"]
    assert kinds(snapshot("stranger/tiny", "main", upstream="stranger/tiny"), pinned=True) == ["unpinned"]


def test_a_folder_without_an_upstream_names_nobody() -> None:
    assert kinds(snapshot(None, None), pinned=True, owners=("acme",)) == []


def test_what_was_asked_reaches_the_finding(hub: LocalHub, hub_files: dict[str, bytes], tmp_path: Path) -> None:
    commit = hub.push("acme/tiny", hub_files)

    def resolve(text: str) -> Snapshot:
        return resolve_source(text, base=tmp_path, store=tmp_path / "store")

    assert kinds(resolve("acme/tiny"), pinned=True, owners=("acme",)) == ["unpinned"]
    assert kinds(resolve(f"acme/tiny@{commit}"), pinned=True, owners=("acme",)) == []
