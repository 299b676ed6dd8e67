"""Answer multiple-choice documents with one model and keep what it chose, document by document.

The documents are a seeded random sample, stratified by subject, that depends on the data, the limit and the seed
only: two models evaluated with the same arguments answer the same ones, and `pairing.pair` insists on it. Results are
kept by the digest of all that moves them, portion by portion while they are made: a run that was killed goes on.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from modelctl import worker
from modelctl.accuracy import reading
from modelctl.accuracy.answers import Document, Kept, TextScore
from modelctl.accuracy.estimate import duration
from modelctl.accuracy.precision import widened
from modelctl.accuracy.questions import Questions, lent
from modelctl.accuracy.sampling import PORTION
from modelctl.accuracy.tools import MEASURING, cores, has_gpu, versions, worker_environment
from modelctl.files import write_whole
from modelctl.isolation import Sandbox
from modelctl.model.tree import Tree
from modelctl.progress import Progress

RECIPE = "3"
"""Raised when the same arguments would give other answers for a reason that the key does not hold."""
DEFAULT_BATCH_SIZE = 32


@dataclass(frozen=True, kw_only=True)
class Results:
    """One model's answers and every parameter that moves them."""

    tree_digest: str
    tasks: tuple[str, ...]
    questions_digest: str
    texts_sha256: str
    limit: int
    seed: int
    fewshot: int
    dtype: str
    batch_size: int
    device: str
    versions: Mapping[str, str]
    documents: tuple[Document, ...]
    texts: tuple[TextScore, ...]

    @property
    def accuracy(self) -> float:
        """The share of documents answered right."""
        return sum(document.correct for document in self.documents) / len(self.documents)

    @property
    def bits_per_byte(self) -> float:
        """What the model needs to write a byte of the texts, all together."""
        return sum(text.bits for text in self.texts) / sum(text.size_bytes for text in self.texts)


_RESULTS: TypeAdapter[Results] = TypeAdapter(Results)


def evaluate(
    tree: Tree,
    questions: Questions,
    *,
    limit: int,
    seed: int,
    dtype: str,
    fewshot: int = 0,
    batch_size: int = DEFAULT_BATCH_SIZE,
    cache: Path,
    sandbox: Sandbox,
    progress: Progress,
    label: str,
    time_limit_s: float,
    memory_limit_bytes: int,
) -> Results:
    """The model's answers to at most `limit` documents. `dtype` must be the same for models to be compared
    (`precision.choose`).

    Raises `CannotDecideError` when a library is missing, the model cannot be loaded or a limit is reached.
    """
    parameters: dict[str, Any] = {
        "tree_digest": tree.digest,
        "tasks": questions.tasks,
        "questions_digest": questions.digest,
        "texts_sha256": reading.digest(),
        "limit": limit,
        "seed": seed,
        "fewshot": fewshot,
        "dtype": dtype,
        "batch_size": batch_size,
        "device": "cuda" if has_gpu() else "cpu",
        "versions": dict(versions(MEASURING)),
    }
    identity = json.dumps({"recipe": RECIPE, "portion": PORTION, "widen": widened(dtype), **parameters}, sort_keys=True)
    key = hashlib.sha256(identity.encode()).hexdigest()
    record = cache / "evaluations" / f"{key}.json"
    found = _remembered(record)
    if found is not None:
        progress.note(f"{label}: the answers of an earlier run are reused")
        return found
    record.parent.mkdir(parents=True, exist_ok=True)
    kept = Kept(record.with_suffix(".parts"))
    pace = _Pace(kept, min(limit, questions.available), label, progress)
    with lent(questions) as home, progress.task(label, total=min(limit, questions.available), unit="documents") as task:
        if kept.parts:
            progress.note(f"{label}: goes on after {kept.documents} documents of an earlier run")
            task.advance(kept.documents)
        answered = worker.call(
            sandbox,
            "accuracy.evaluate_worker",
            {
                "mode": "evaluate",
                "model": str(tree.root),
                "task_folder": str(questions.task_folder) if questions.task_folder else None,
                "threads": cores(),
                "widen": widened(dtype),
                "done": sorted(kept.parts),
                "texts": [asdict(text) for text in reading.shipped_texts()],
                **{
                    name: parameters[name]
                    for name in ("tasks", "limit", "seed", "fewshot", "dtype", "batch_size", "device")
                },
            },
            readable=[*tree.folders, *([questions.task_folder] if questions.task_folder else [])],
            writable=[home] if home else [],
            env={**worker_environment(), **({"HF_HOME": str(home)} if home else {})},
            devices=has_gpu(),
            time_limit_s=time_limit_s,
            memory_limit_bytes=memory_limit_bytes,
            task=task,
            on_progress=pace.hear,
        )
    documents, texts = kept.whole(answered)
    results = Results(documents=documents, texts=texts, **parameters)
    write_whole(record, json.dumps(asdict(results)) + "\n")
    kept.forget()
    return results


class _Pace:
    """Keeps what is answered, and tells the time that is left once the second portion is: the first has the loading."""

    def __init__(self, kept: Kept, total: int, label: str, progress: Progress) -> None:
        self._kept, self._total, self._label, self._progress = kept, total, label, progress
        self._heard = 0
        self._since = 0.0

    def hear(self, message: Mapping[str, Any]) -> None:
        """Take a message of the child."""
        self._kept.hear(message)
        if "part" not in message:
            return
        self._heard += 1
        if self._heard == 1:
            self._since = time.monotonic()
        left = self._total - self._kept.documents
        if self._heard == 2 and left > PORTION:
            seconds = (time.monotonic() - self._since) * left / PORTION
            self._progress.note(f"{self._label}: about {duration(seconds)} are left")


def _remembered(record: Path) -> Results | None:
    try:
        return _RESULTS.validate_json(record.read_bytes())
    except (OSError, ValidationError):
        return None
