"""What this machine has and lacks for each part of the work, each lack with the command that mends it."""

from __future__ import annotations

import importlib.util
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Literal

from modelctl.errors import ModelctlError
from modelctl.git import Git
from modelctl.settings import Workspace

State = Literal["ok", "missing", "warning"]
EXTRAS = {"tokenizer": ("transformers", "tokenizers"), "quantization": ("torch", "gptqmodel", "lm_eval")}


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """One part: what was found, what it is for, and how to mend it."""

    part: str
    state: State
    found: str
    needed_for: str
    remedy: str | None = None


def diagnose(workspace: Workspace) -> Iterator[Diagnosis]:
    """Look at every part, the cheap ones first. A part that can't be looked at is missing, with the reason."""
    for look in (
        _python,
        _git,
        _isolation,
        _clamd,
        *(_extra(name) for name in EXTRAS),
        _gpu,
        _engine,
        _store,
        _signing,
    ):
        yield look(workspace)


def _python(_workspace: Workspace) -> Diagnosis:
    version = ".".join(str(part) for part in sys.version_info[:3])
    return Diagnosis(part="python", state="ok", found=version, needed_for="everything")


def _git(workspace: Workspace) -> Diagnosis:
    needed_for = "publish, rollout, audit"
    git = Git(workspace.root)
    try:
        version = git.run("--version").strip()
    except ModelctlError as error:
        return Diagnosis(part="git", state="missing", found=error.message, needed_for=needed_for, remedy=error.remedy)
    if not git.run("rev-parse", "--show-toplevel", check=False):
        return Diagnosis(
            part="git",
            state="warning",
            found=f"{version}, but {workspace.root} is not in a repository",
            needed_for=needed_for,
            remedy=f"git init {workspace.root}",
        )
    identity = git.run("var", "GIT_COMMITTER_IDENT", check=False).rsplit(" ", 2)[0]
    if not identity or not git.run("config", "user.email", check=False).strip():
        return Diagnosis(
            part="git",
            state="missing",
            found=f"{version}, without an identity for commits",
            needed_for=needed_for,
            remedy="git config user.name '…' && git config user.email '…'",
        )
    return Diagnosis(part="git", state="ok", found=f"{version}, {identity}", needed_for=needed_for)


def _isolation(_workspace: Workspace) -> Diagnosis:
    from modelctl.isolation import detect

    needed_for = "loading a model that is not admitted yet"
    if detect() == "bubblewrap":
        return Diagnosis(part="isolation", state="ok", found="bubblewrap works", needed_for=needed_for)
    installed = shutil.which("bwrap") is not None
    return Diagnosis(
        part="isolation",
        state="missing",
        found="bubblewrap may not create namespaces here" if installed else "bubblewrap is not installed",
        needed_for=needed_for,
        remedy=(
            "allow user namespaces (sysctl kernel.unprivileged_userns_clone=1) or run as root"
            if installed
            else "apt-get install bubblewrap"
        ),
    )


def _clamd(workspace: Workspace) -> Diagnosis:
    from modelctl.scan.clamd import Clamd
    from modelctl.services.clamd import clamd_program, private_clamd
    from modelctl.services.process import find

    needed_for = "malware"
    folder = workspace.state / "services" / "clamd"
    running = find(folder)
    address = workspace.settings.clamd or (running.address if running else None)
    if address is not None:
        try:
            version = Clamd(address).version()
        except ModelctlError as error:
            return Diagnosis(
                part="clamd", state="missing", found=error.message, needed_for=needed_for, remedy=error.remedy
            )
        if version.database is None:
            return Diagnosis(
                part="clamd",
                state="warning",
                found=f"{version.engine} at {address}, without an official database",
                needed_for=needed_for,
                remedy="freshclam, then restart clamd",
            )
        found = f"{version.engine} at {address}, database {version.database} of {version.database_date}"
        return Diagnosis(part="clamd", state="ok", found=found, needed_for=needed_for)
    program = clamd_program()
    if program is None:
        return Diagnosis(
            part="clamd",
            state="missing",
            found="no clamd is set and the program is not installed",
            needed_for=needed_for,
            remedy="apt-get install clamav-daemon clamav-freshclam, or set clamd (MODELCTL_CLAMD)",
        )
    return Diagnosis(
        part="clamd",
        state="warning",
        found=f"{program} is started when needed; {private_clamd(folder).detail}",
        needed_for=needed_for,
        remedy="modelctl services up keeps one running; freshclam fetches the official database",
    )


def _extra(name: str) -> Callable[[Workspace], Diagnosis]:
    def look(_workspace: Workspace) -> Diagnosis:
        modules = EXTRAS[name]
        absent = [module for module in modules if importlib.util.find_spec(module) is None]
        if absent:
            return Diagnosis(
                part=f"extra {name}",
                state="missing",
                found=f"not installed: {', '.join(absent)}",
                needed_for=name,
                remedy=f"pip install 'modelctl[{name}]'",
            )
        found = ", ".join(f"{module} {metadata.version(module)}" for module in modules)
        return Diagnosis(part=f"extra {name}", state="ok", found=found, needed_for=name)

    return look


def _gpu(_workspace: Workspace) -> Diagnosis:
    from modelctl.admission.machine import gpus

    names = gpus()
    if names:
        return Diagnosis(part="gpu", state="ok", found="; ".join(names), needed_for="concurrency in production")
    return Diagnosis(
        part="gpu",
        state="warning",
        found="none that nvidia-smi lists",
        needed_for="concurrency in production",
        remedy="run the stress checks on a GPU runner, or judge by a policy for CPUs",
    )


def _engine(workspace: Workspace) -> Diagnosis:
    engine = workspace.settings.engine
    needed_for = "long-context, concurrency"
    if engine.endpoint:
        return Diagnosis(part="engine", state="ok", found=f"a running one: {engine.endpoint}", needed_for=needed_for)
    command = engine.command or "vllm serve"
    program = shlex.split(command)[0]
    if shutil.which(program) is None:
        return Diagnosis(
            part="engine",
            state="missing",
            found=f"{program} is not on PATH" + ("" if engine.command else " and engine.command is not set"),
            needed_for=needed_for,
            remedy="set engine.command (MODELCTL_ENGINE_COMMAND), or engine.endpoint to a running one",
        )
    return Diagnosis(part="engine", state="ok", found=command, needed_for=needed_for)


def _store(workspace: Workspace) -> Diagnosis:
    from modelctl.registry.store import ObjectStore

    needed_for = "publish, pull"
    try:
        found = ObjectStore.open(workspace.settings.store, state=workspace.state).describe()
    except ModelctlError as error:
        return Diagnosis(
            part="object store", state="missing", found=error.message, needed_for=needed_for, remedy=error.remedy
        )
    return Diagnosis(part="object store", state="ok", found=found, needed_for=needed_for)


def _signing(workspace: Workspace) -> Diagnosis:
    key = workspace.settings.signing.key
    if key is None or not workspace.resolve(key).is_file():
        where = workspace.resolve(key) if key else workspace.root / ".modelctl" / "signing_key"
        return Diagnosis(
            part="signing key",
            state="missing",
            found="signing.key is not set" if key is None else f"{where} does not exist",
            needed_for="publish",
            remedy=f"ssh-keygen -t ed25519 -N '' -f {where} && export MODELCTL_SIGNING_KEY={where}",
        )
    return Diagnosis(part="signing key", state="ok", found=str(workspace.resolve(key)), needed_for="publish")
