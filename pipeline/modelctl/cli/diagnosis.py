"""What this machine has and lacks for each part of the work, each lack with the command that mends it."""

from __future__ import annotations

import importlib.util
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Literal

from modelctl.errors import ModelctlError
from modelctl.git import Git
from modelctl.settings import Workspace

if TYPE_CHECKING:
    from modelctl.checks.limits import MalwareLimits

State = Literal["ok", "missing", "warning"]
LACKING = "docs/registry.md says what each is for; MinIO has all of them"
EXTRAS = {"tokenizer": ("transformers", "tokenizers"), "quantization": ("torch", "gptqmodel", "lm_eval")}


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """One part: what was found, what it is for, and how to mend it."""

    part: str
    state: State
    found: str
    needed_for: str
    remedy: str | None = None


@dataclass(frozen=True)
class _Part:
    """A part whose state is to be told."""

    name: str
    needed_for: str

    def ok(self, found: str) -> Diagnosis:
        return self._diagnosis("ok", found, None)

    def warning(self, found: str, remedy: str) -> Diagnosis:
        return self._diagnosis("warning", found, remedy)

    def missing(self, found: str, remedy: str | None) -> Diagnosis:
        return self._diagnosis("missing", found, remedy)

    def failed(self, error: ModelctlError) -> Diagnosis:
        return self._diagnosis("missing", error.message, error.remedy)

    def _diagnosis(self, state: State, found: str, remedy: str | None) -> Diagnosis:
        return Diagnosis(part=self.name, state=state, found=found, needed_for=self.needed_for, remedy=remedy)


def diagnose(workspace: Workspace) -> Iterator[Diagnosis]:
    """Look at every part, the cheap ones first. A part that can't be looked at is missing, with the reason."""
    yield _Part("python", "everything").ok(".".join(str(part) for part in sys.version_info[:3]))
    yield _git(_Part("git", "publish, rollout, audit"), workspace)
    yield _isolation(_Part("isolation", "loading a model that is not admitted yet"))
    yield _clamd(_Part("clamd", "malware"), workspace)
    for name, modules in EXTRAS.items():
        yield _extra(_Part(f"extra {name}", name), name, modules)
    yield _gpu(_Part("gpu", "concurrency in production"))
    yield _engine(_Part("engine", "long-context, concurrency"), workspace)
    yield _store(_Part("object store", "publish, pull"), workspace)
    yield _signing(_Part("signing key", "publish"), workspace)


def _git(part: _Part, workspace: Workspace) -> Diagnosis:
    git = Git(workspace.root)
    try:
        version = git.run("--version").strip()
    except ModelctlError as error:
        return part.failed(error)
    if not git.run("rev-parse", "--show-toplevel", check=False):
        return part.warning(f"{version}, but {workspace.root} is not in a repository", f"git init {workspace.root}")
    identity = git.run("var", "GIT_COMMITTER_IDENT", check=False).rsplit(" ", 2)[0]
    if not identity or not git.run("config", "user.email", check=False).strip():
        remedy = "git config user.name '…' && git config user.email '…'"
        return part.missing(f"{version}, without an identity for commits", remedy)
    return part.ok(f"{version}, {identity}")


def _isolation(part: _Part) -> Diagnosis:
    from modelctl.isolation import detect

    if detect() == "bubblewrap":
        return part.ok("bubblewrap works")
    if shutil.which("bwrap") is None:
        return part.missing("bubblewrap is not installed", "apt-get install bubblewrap")
    return part.missing(
        "bubblewrap may not create namespaces here",
        "allow user namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0), or run as root",
    )


def malware_limits(workspace: Workspace) -> MalwareLimits:
    """The section `malware` of the policy that the settings name. Raises `InputError`."""
    from modelctl.admission.policy import load_policy

    return load_policy(workspace.settings.policy, workspace.root).policy.spec.checks.malware


def _clamd(part: _Part, workspace: Workspace) -> Diagnosis:
    from modelctl.services.clamd import OWN_DATABASE, clamd_program, official_database
    from modelctl.services.process import find

    running = find(workspace.state / "services" / "clamd")
    address = workspace.settings.clamd or (running.address if running else None)
    if address is not None:
        try:
            return _running_clamd(part, address, malware_limits(workspace))
        except ModelctlError as error:
            return part.failed(error)
    program = clamd_program()
    if program is None:
        return part.missing(
            "no clamd is set and the program is not installed",
            "apt-get install clamav-daemon clamav-freshclam, or set clamd (MODELCTL_CLAMD)",
        )
    database = official_database(workspace.state / "services" / "clamd" / OWN_DATABASE)
    if database is None:
        return part.warning(
            f"{program} is started when needed, with a small test database: there is no official one here",
            "sudo freshclam fetches it; without root, modelctl services up clamd says the command",
        )
    return part.ok(f"{program} is started when needed, with the database in {database}")


def _running_clamd(part: _Part, address: str, limits: MalwareLimits) -> Diagnosis:
    """What a run would stumble over, without the proof at the window's size, which takes its time."""
    from modelctl.scan.clamd import Clamd
    from modelctl.scan.proof import lines_to_change, prove
    from modelctl.scan.windows import Windows
    from modelctl.services import clamd_conf

    clamd, windows = Clamd(address), Windows(size_bytes=limits.window_mib << 20, trusted_scan_s=limits.trusted_scan_s)
    version = clamd.version()
    configuration = clamd_conf.configuration_of(address)
    if configuration is not None and configuration.lacks(windows.size_bytes, trusted_scan_s=windows.trusted_scan_s):
        found = f"{version.engine} at {address} does not look at all of a window of {limits.window_mib} MiB"
        return part.missing(found, lines_to_change(clamd, windows))
    prove(clamd, size_bytes=0, windows=windows)
    if version.database is None:
        return part.warning(f"{version.engine} at {address}, without an official database", clamd_conf.FRESHCLAM)
    return part.ok(f"{version.engine} at {address}, database {version.database} of {version.database_date}")


def _extra(part: _Part, name: str, modules: tuple[str, ...]) -> Diagnosis:
    absent = [module for module in modules if importlib.util.find_spec(module) is None]
    if absent:
        return part.missing(f"not installed: {', '.join(absent)}", f"pip install 'modelctl[{name}]'")
    return part.ok(", ".join(f"{module} {metadata.version(module)}" for module in modules))


def _gpu(part: _Part) -> Diagnosis:
    from modelctl.admission.machine import gpus

    names = gpus()
    if names:
        return part.ok("; ".join(names))
    return part.warning(
        "none that nvidia-smi lists", "run the stress checks on a GPU runner, or judge by a policy for CPUs"
    )


def _engine(part: _Part, workspace: Workspace) -> Diagnosis:
    engine = workspace.settings.engine
    if engine.endpoint:
        return part.ok(f"a running one: {engine.endpoint}")
    remedy = "set engine.command (MODELCTL_ENGINE_COMMAND), or engine.endpoint to a running one"
    if not engine.command:
        return part.missing("engine.command is not set", remedy)
    program = shlex.split(engine.command)[0]
    if shutil.which(program) is None:
        return part.missing(f"{program} is not on PATH", remedy)
    return part.ok(engine.command)


def _store(part: _Part, workspace: Workspace) -> Diagnosis:
    from modelctl.registry.capabilities import probe
    from modelctl.registry.store import ObjectStore

    try:
        store = ObjectStore.open(workspace.settings.store, state=workspace.state)
        found = store.describe()
        if not store.exists():
            return part.ok(found)
        can = probe(store)
    except ModelctlError as error:
        return part.failed(error)
    found += f"; has {', '.join(can.has()) or 'nothing more'}"
    if can.lacks():
        return part.warning(f"{found}; lacks {', '.join(can.lacks())}", LACKING)
    return part.ok(found)


def _signing(part: _Part, workspace: Workspace) -> Diagnosis:
    if workspace.settings.signing.keyless:
        if importlib.util.find_spec("sigstore") is None:
            return part.missing("signing.keyless, and sigstore is not installed", "pip install 'modelctl[sigstore]'")
        return part.ok("none: sigstore signs as whom the job's token names (signing.keyless)")
    key = workspace.settings.signing.key
    where = workspace.resolve(key) if key else workspace.state / "signing_key"
    remedy = f"ssh-keygen -t ecdsa -N '' -f {where} && export MODELCTL_SIGNING_KEY={where}"
    if key is None:
        return part.missing("signing.key is not set", remedy)
    if not where.is_file():
        return part.missing(f"{where} does not exist", remedy)
    return part.ok(str(where))
