from __future__ import annotations

from pathlib import Path

from modelctl.audit.graph import Graph
from tests.support.repos import commit_file, git_repository


def test_a_change_of_a_branch_landed_with_the_merge_that_brought_it(tmp_path: Path) -> None:
    git = git_repository(tmp_path)
    first = commit_file(git, "a", "1")
    git.run("checkout", "--quiet", "-b", "side")
    on_side = commit_file(git, "b", "1")
    git.run("checkout", "--quiet", "main")
    second = commit_file(git, "c", "1")
    git.run("merge", "--quiet", "--no-ff", "--message", "Merge side", "side")
    merge = git.head() or ""
    graph = Graph.of(git, merge)
    assert graph.main_line == (first, second, merge)
    assert graph.landed == {first: first, second: second, merge: merge, on_side: merge}
    assert graph.is_ancestor(on_side, merge)
    assert graph.is_ancestor(first, on_side)
    assert not graph.is_ancestor(second, on_side)
    assert not graph.is_ancestor(on_side, second)
    assert graph.is_ancestor(on_side, on_side)
    assert not graph.is_ancestor("0" * 40, merge)
