from __future__ import annotations

from pathlib import Path

from modelctl.audit.graph import Graph
from modelctl.audit.history import read_history
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


def test_a_history_of_which_every_commit_was_read_is_not_asked_for_again(tmp_path: Path) -> None:
    git = git_repository(tmp_path)
    commit_file(git, "registry/a", "1")
    git.run("checkout", "--quiet", "-b", "side")
    commit_file(git, "registry/b", "1")
    git.run("checkout", "--quiet", "main")
    commit_file(git, "registry/c", "1")
    git.run("merge", "--quiet", "--no-ff", "--message", "Merge side", "side")
    for path in ("registry/d", "README.md"):  # the second commit is of no concern, and still a part of the graph
        head = commit_file(git, path, "1")
        history = read_history(tmp_path)
        assert history.graph.parents == Graph.of(git, head).parents
        assert history.graph.main_line == Graph.of(git, head).main_line
        assert (len(history.commits) == len(history.graph.parents)) == (path == "registry/d")
