"""Where the documents of an evaluation come from: tasks that ship with the program, tasks of a folder that the policy
names, or named lm-eval tasks fetched beforehand.

Where a folder is named, nothing is fetched. Fetching needs the network and never sees a model; evaluating sees a model
and has no network. What was fetched is kept with its digest, and a child that loads a model gets a copy of it, so that
it can't change the questions of a later run.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from modelctl import worker
from modelctl.accuracy.task_loading import SHIPPED, shipped
from modelctl.accuracy.tools import MEASURING, network_environment, versions, worker_environment
from modelctl.errors import CannotDecideError
from modelctl.files import write_whole
from modelctl.isolation import Sandbox
from modelctl.model.tree import DIGEST_PREFIX, scan_tree
from modelctl.progress import Progress


@dataclass(frozen=True, kw_only=True)
class Questions:
    """The data of some tasks, at rest."""

    tasks: tuple[str, ...]
    digest: str
    """`sha256:<hex>` of everything that the questions are made of."""
    available: int
    """How many documents the tasks hold."""
    folder: Path | None
    """What was fetched, laid out as a Hugging Face home; None when nothing had to be."""
    task_folder: Path | None = None
    """lm-eval task files and their data, which go before all others."""


def prepare(
    tasks: Sequence[str],
    *,
    task_folder: Path | None = None,
    cache: Path,
    progress: Progress,
    time_limit_s: float,
    memory_limit_bytes: int,
) -> Questions:
    """Have the tasks' data on this disk. Raises `CannotDecideError` when they cannot be fetched or have changed
    since."""
    names = tuple(sorted(set(tasks)))
    if task_folder is not None:
        return _vendored(names, task_folder, cache, time_limit_s=time_limit_s, memory_limit_bytes=memory_limit_bytes)
    if shipped().issuperset(names):
        return _shipped(names)
    identity = hashlib.sha256(json.dumps([names, dict(versions(MEASURING))]).encode()).hexdigest()
    folder = cache / "questions" / identity
    record = folder.with_suffix(".json")
    if not record.is_file():
        progress.note(f"fetching the questions of {', '.join(names)}")
        available = _fetch(names, folder, time_limit_s=time_limit_s, memory_limit_bytes=memory_limit_bytes)
        record.write_text(json.dumps({"digest": scan_tree(folder).digest, "available": available}), encoding="utf-8")
    kept = json.loads(record.read_text(encoding="utf-8"))
    if not folder.is_dir() or scan_tree(folder).digest != kept["digest"]:
        raise CannotDecideError(
            f"{folder}: the fetched questions have changed since",
            remedy=f"delete {folder} and {record.name} beside it, then run again",
        )
    return Questions(tasks=names, digest=kept["digest"], available=kept["available"], folder=folder)


@contextmanager
def lent(questions: Questions) -> Iterator[Path | None]:
    """A throw-away copy of the fetched data for one child; None when nothing was fetched."""
    if questions.folder is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="modelctl-questions-") as folder:
        copy = Path(folder, "home")
        shutil.copytree(questions.folder, copy, symlinks=True)
        yield copy


def _fetch(names: tuple[str, ...], folder: Path, *, time_limit_s: float, memory_limit_bytes: int) -> int:
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetching-") as partial:
        home = Path(partial, "home")
        home.mkdir()
        online = {"HF_HOME": str(home), "HF_HUB_OFFLINE": "0", "HF_DATASETS_OFFLINE": "0"}
        try:
            fetched = worker.call(
                Sandbox("none"),  # it needs the network, and sees nothing that is hostile: no model
                "accuracy.evaluate_worker",
                {"mode": "fetch", "tasks": list(names), "task_folder": None},
                env={**worker_environment(), **network_environment(), **online},
                time_limit_s=time_limit_s,
                memory_limit_bytes=memory_limit_bytes,
            )
        except CannotDecideError as error:
            raise CannotDecideError(
                f"the questions of {', '.join(names)} could not be fetched: {error.message}",
                remedy="check the names with lm-eval ls tasks, and the way to the Hub (HTTPS_PROXY, HF_ENDPOINT); "
                "or name a folder that holds them (quantization.task_folder); "
                f"{', '.join(sorted(shipped()))} ships with modelctl (quantization.tasks)",
            ) from error
        home.rename(folder)
    return int(fetched["documents"])


def _vendored(
    names: tuple[str, ...], folder: Path, cache: Path, *, time_limit_s: float, memory_limit_bytes: int
) -> Questions:
    """The tasks of a folder, and shipped ones; they are counted once, in a child that can reach nothing else."""
    if not any(folder.glob("**/*.yaml")):
        raise CannotDecideError(
            f"{folder}: no folder with lm-eval task files (*.yaml)",
            remedy="write quantization.task_folder relative to the registry repository",
        )
    tree = scan_tree(folder)
    all_shipped = _shipped(tuple(sorted(shipped()))).digest
    identity = hashlib.sha256(json.dumps([names, tree.digest, all_shipped, dict(versions(MEASURING))]).encode())
    record = cache / "questions" / f"{identity.hexdigest()}.json"
    if not record.is_file():
        try:
            counted = worker.call(
                Sandbox(),
                "accuracy.evaluate_worker",
                {"mode": "fetch", "tasks": list(names), "task_folder": str(folder)},
                readable=tree.folders,
                env=worker_environment(),
                time_limit_s=time_limit_s,
                memory_limit_bytes=memory_limit_bytes,
            )
        except CannotDecideError as error:
            raise CannotDecideError(
                f"the questions of {', '.join(names)} could not be read from {folder}: {error.message}",
                remedy="mend the task files there, or name other tasks (quantization.tasks)",
            ) from error
        record.parent.mkdir(parents=True, exist_ok=True)
        write_whole(record, json.dumps({"available": int(counted["documents"])}))
    available = json.loads(record.read_text(encoding="utf-8"))["available"]
    digest = DIGEST_PREFIX + identity.hexdigest()
    return Questions(tasks=names, digest=digest, available=available, folder=None, task_folder=folder)


def _shipped(names: tuple[str, ...]) -> Questions:
    """A shipped task is one YAML file that names its data, a JSONL file beside it."""
    digest = hashlib.sha256()
    available = 0
    for name in names:
        for path in (SHIPPED / f"{name}.yaml", SHIPPED / f"{name}.jsonl"):
            content = path.read_bytes()
            digest.update(path.name.encode() + b"\0" + hashlib.sha256(content).digest())
        available += content.count(b"\n")
    return Questions(tasks=names, digest=DIGEST_PREFIX + digest.hexdigest(), available=available, folder=None)
