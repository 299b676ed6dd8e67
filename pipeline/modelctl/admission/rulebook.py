"""The rules of one admission: which policy, with which waivers, read from where, and what a reader must know of that.

With `--policy-ref` all of them come from that commit: the policy's name (by `modelctl.yaml` there, unless an option or
a variable names one), its files, the waivers and the signers. What a pull request changes in them is told and not
followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from modelctl.admission.names import SIGNERS_FILE, SIGNERS_FOLDER
from modelctl.admission.policy import LoadedPolicy, load_policy
from modelctl.admission.policy_files import POLICIES, SETTINGS, FolderFiles, RuleFiles, rule_files
from modelctl.admission.report import PolicyReport
from modelctl.admission.signers import PEM, TRUSTED_ROOT
from modelctl.admission.waivers import FOLDER, Waivers, load_waivers
from modelctl.documents import parse_yaml, validate
from modelctl.errors import InputError
from modelctl.files import SETTINGS_FILE
from modelctl.settings import Settings, Workspace


@dataclass(frozen=True, kw_only=True)
class Rulebook:
    """What decides."""

    policy: LoadedPolicy
    waivers: Waivers
    files: RuleFiles
    notes: tuple[str, ...] = ()

    def described(self) -> PolicyReport:
        """How a report names it."""
        return describe(self.policy, self.files.root, self.notes)


def describe(policy: LoadedPolicy, root: Path, notes: tuple[str, ...] = ()) -> PolicyReport:
    """How a report names a policy: by its place in the repository, or as one that comes with modelctl."""
    place = policy.place
    if Path(place).is_absolute():
        inside = Path(place).is_relative_to(root)
        place = Path(place).relative_to(root).as_posix() if inside else f"{Path(place).name}, built in"
    return PolicyReport(
        name=policy.name, digest=policy.digest, notice=policy.policy.spec.notice, place=place, notes=notes
    )


def load_rulebook(
    workspace: Workspace,
    *,
    option: str | None = None,
    of_release: str | None = None,
    ref: str | None = None,
    release: str | None = None,
) -> Rulebook:
    """The policy that `option` names, else the release (`of_release`), else the settings, and the waivers for `release`
    (`name@version`).

    With `ref` a release has no say: its proposer could choose the weakest policy there is. Raises `InputError`.
    """
    files = rule_files(workspace.root, ref)
    notes: list[str] = []
    if ref is None:
        name = option or of_release or workspace.settings.policy
    else:
        name = option or default_policy(workspace, files)
        if of_release is not None and of_release != name:
            notes.append(
                f"the release names the policy '{of_release}'; it is judged by '{name}', since --policy-ref is given"
            )
    policy = load_policy(name, workspace.root, files)
    waivers = Waivers(waivers=load_waivers(files), rules=policy.policy.spec.waivers, release=release)
    if ref is not None:
        notes.extend(_differences(policy, files))
    return Rulebook(policy=policy, waivers=waivers, files=files, notes=tuple(notes))


def default_policy(workspace: Workspace, files: RuleFiles) -> str:
    """The default policy's name, by a variable of this machine or by the settings that lie beside the rules."""
    origin = next(item.origin for item in workspace.origins if item.key == "policy")
    if isinstance(files, FolderFiles) or origin not in (SETTINGS_FILE, "default"):
        return workspace.settings.policy
    text = files.read(SETTINGS)
    if text is None:
        return Settings().policy
    return validate(parse_yaml(text, origin=files.place(SETTINGS)) or {}, Settings, origin=files.place(SETTINGS)).policy


def _differences(policy: LoadedPolicy, files: RuleFiles) -> Iterator[str]:
    """What the working tree has otherwise: it was not used."""
    here = FolderFiles(files.root)
    folders = (POLICIES, FOLDER, SIGNERS_FOLDER)
    every = {path for folder in folders for source in (here, files) for path in source.listing(folder)}
    kinds = (".yaml", ".yml", PEM, TRUSTED_ROOT)
    paths = sorted(path for path in every if path.endswith(kinds) or path == SIGNERS_FILE.as_posix())
    layers = {files.place(path) for path in paths} & {layer.place for layer in policy.layers}
    for path in [*paths, SETTINGS]:
        theirs = files.read(path)
        try:
            ours = here.read(path)
        except InputError:
            ours = ""  # unreadable is not what the commit has
        if ours == theirs:
            continue
        word = "adds" if theirs is None else "removes" if ours is None else "changes"
        weight = "the policy itself" if files.place(path) in layers else "not used"
        yield f"this working tree {word} {path} ({weight}); it is judged by the rules of {files.place(path)}"
