"""The shape of a history: who builds on whom, and by which commit of the main line each change arrived.

The main line are the first parents from HEAD on. What a side branch holds was brought by the merge that first made it
reachable; a squashed or rebased change is on the main line itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from modelctl.git import Git


@dataclass(frozen=True)
class Graph:
    """All commits that lead to one, each with its parents; parents come first."""

    parents: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, git: Git, head: str) -> Graph:
        """Read it by one process, which uses the commit-graph file where there is one. Raises `GitError`."""
        listed = git.run("--no-replace-objects", "rev-list", "--topo-order", "--reverse", "--parents", head, "--")
        lines = (line.split(" ") for line in listed.splitlines())
        return cls({commit: tuple(parents) for commit, *parents in lines})

    @cached_property
    def order(self) -> dict[str, int]:
        """Each commit's place; parents have a lower one."""
        return {commit: place for place, commit in enumerate(self.parents)}

    @cached_property
    def main_line(self) -> tuple[str, ...]:
        """The first parents, oldest first."""
        found: list[str] = []
        commit = next(reversed(self.order), None)
        while commit is not None and commit in self.parents:
            found.append(commit)
            commit = next(iter(self.parents[commit]), None)
        return tuple(reversed(found))

    @cached_property
    def main_place(self) -> Mapping[str, int]:
        """The place of each commit of the main line on it."""
        return {commit: place for place, commit in enumerate(self.main_line)}

    @cached_property
    def landed(self) -> Mapping[str, str]:
        """The commit of the main line by which each commit arrived: itself, or the merge that brought it."""
        found = {commit: commit for commit in self.main_line}
        for merge in self.main_line:
            waiting = list(self.parents[merge][1:])
            while waiting:
                commit = waiting.pop()
                if commit in self.parents and commit not in found:
                    found[commit] = merge
                    waiting.extend(self.parents[commit])
        return found

    def is_ancestor(self, earlier: str, later: str) -> bool:
        """Whether `later` builds on `earlier` (or is it)."""
        if earlier not in self.parents or later not in self.parents:
            return False
        if later in self.main_place:
            return earlier in self.landed and self.main_place[self.landed[earlier]] <= self.main_place[later]
        floor, seen, waiting = self.order[earlier], {later}, [later]
        while waiting:
            commit = waiting.pop()
            if commit == earlier:
                return True
            for parent in self.parents[commit]:
                if parent not in seen and self.order.get(parent, -1) >= floor:
                    seen.add(parent)
                    waiting.append(parent)
        return False
