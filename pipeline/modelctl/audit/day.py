"""The rules of a day: policies, waivers and signers as they were at a commit, read once for each state of them.

A proposal can't have brought them: what is asked for is the commit before the one that is judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from modelctl.admission.names import SIGNERS_FILE
from modelctl.admission.policy import LoadedPolicy, load_policy
from modelctl.admission.policy_files import POLICIES, SETTINGS, built_in_folder, text_of
from modelctl.admission.signers import AllowedSigner, repository_signers
from modelctl.admission.waivers import Waiver, load_waivers
from modelctl.audit.history import History
from modelctl.documents import parse_yaml, validate
from modelctl.settings import Settings


@dataclass(frozen=True)
class DayFiles:
    """The texts of a commit, as `admission.policy_files.RuleFiles` are."""

    history: History
    commit: str

    @property
    def root(self) -> Path:
        """See `RuleFiles`."""
        return self.history.root

    @property
    def built_in(self) -> Path | None:
        """The policies of the program that verifies."""
        return built_in_folder()

    def read(self, path: str) -> str | None:
        """See `RuleFiles`."""
        content = self.history.content(self.commit, path)
        return None if content is None else text_of(content, self.place(path))

    def listing(self, folder: str) -> Sequence[str]:
        """See `RuleFiles`."""
        if self.history.object_id(self.commit, folder) is None:
            return ()
        found = self.history.paths(self.commit, folder)
        return sorted(path for path in found if path.rpartition("/")[0] == folder)

    def place(self, path: str) -> str:
        """See `RuleFiles`."""
        return f"{path} at {self.commit[:12]}"


class Rules:
    """One state of `policies/` and `modelctl.yaml`; what can't be read raises `InputError` when it is asked for."""

    def __init__(self, files: DayFiles) -> None:
        self.files = files
        self._policies: dict[str, LoadedPolicy] = {}

    @cached_property
    def signers(self) -> tuple[AllowedSigner, ...] | None:
        """Who could sign; None when nothing said so."""
        return repository_signers(self.files)

    @cached_property
    def signers_text(self) -> str | None:
        """The list that git's own signatures are held against."""
        return self.files.read(SIGNERS_FILE.as_posix())

    @cached_property
    def waivers(self) -> tuple[Waiver, ...]:
        """What could be waived."""
        return load_waivers(self.files)

    @cached_property
    def default_policy(self) -> str:
        """The policy that holds where nothing names another."""
        origin = self.files.place(SETTINGS)
        text = self.files.read(SETTINGS)
        values = parse_yaml(text, origin=origin) if text is not None else None
        return validate(values or {}, Settings, origin=origin).policy

    def policy(self, name: str) -> LoadedPolicy:
        """The policy of a name."""
        if name not in self._policies:
            self._policies[name] = load_policy(name, self.files.root, self.files)
        return self._policies[name]

    def is_built_in(self, loaded: LoadedPolicy) -> bool:
        """Whether a part of a policy comes from the program and not from this repository."""
        folder = built_in_folder()
        return any(layer.path.is_relative_to(folder) for layer in loaded.layers)


class RuleDays:
    """The rules at any commit of a history."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._states: dict[tuple[str | None, ...], Rules] = {}

    def prepare(self, commits: Iterable[str]) -> None:
        """Look up the states of many commits by one process."""
        self._history.object_ids([(commit, path) for commit in commits for path in (POLICIES, SETTINGS)])

    def state(self, commit: str) -> tuple[str | None, ...]:
        """Object ids that name everything that the rules at a commit are read from."""
        return self._history.object_ids([(commit, POLICIES), (commit, SETTINGS)])

    def at(self, commit: str) -> Rules:
        """The rules at a commit."""
        state = self.state(commit)
        if state not in self._states:
            self._states[state] = Rules(DayFiles(self._history, commit))
        return self._states[state]
