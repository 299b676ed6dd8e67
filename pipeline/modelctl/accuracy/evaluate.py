"""Answer multiple-choice documents with one model and keep what it chose, document by document.

The documents are a seeded random sample, stratified by subject, that depends on the data, the limit and the seed
only: two models evaluated with the same arguments answer the same ones, and `pairing.pair` insists on it. Results are
kept by the digest of all that moves them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from modelctl import worker
from modelctl.accuracy.questions import Questions, lent
from modelctl.accuracy.tools import MEASURING, cores, has_gpu, versions, worker_environment
from modelctl.errors import CannotDecideError
from modelctl.isolation import Sandbox
from modelctl.model.tree import Tree
from modelctl.progress import Progress

RECIPE = "1"
"""Raised when the same arguments would give other answers for a reason that the key does not hold."""
DEFAULT_BATCH_SIZE = 32


@dataclass(frozen=True, kw_only=True)
class Document:
    """One answered document."""

    task: str
    doc_id: int
    subject: str
    doc_hash: str
    prompt_hash: str
    target_hash: str
    choices: int
    target: int | str
    """The right choice: its place, or its text where the task has it so."""
    chosen: int
    """The place of the choice that the model finds likeliest."""
    correct: bool


@dataclass(frozen=True, kw_only=True)
class Results:
    """One model's answers and every parameter that moves them."""

    tree_digest: str
    tasks: tuple[str, ...]
    questions_digest: str
    limit: int
    seed: int
    fewshot: int
    dtype: str
    batch_size: int
    device: str
    versions: Mapping[str, str]
    documents: tuple[Document, ...]

    @property
    def accuracy(self) -> float:
        """The share of documents answered right."""
        return sum(document.correct for document in self.documents) / len(self.documents)


_RESULTS: TypeAdapter[Results] = TypeAdapter(Results)
_DOCUMENTS: TypeAdapter[tuple[Document, ...]] = TypeAdapter(tuple[Document, ...])


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
    """The model's answers to at most `limit` documents. `dtype` (bfloat16, float16) must be the same for models to be
    compared.

    Raises `CannotDecideError` when a library is missing, the model cannot be loaded or a limit is reached.
    """
    parameters: dict[str, Any] = {
        "tree_digest": tree.digest,
        "tasks": questions.tasks,
        "questions_digest": questions.digest,
        "limit": limit,
        "seed": seed,
        "fewshot": fewshot,
        "dtype": dtype,
        "batch_size": batch_size,
        "device": "cuda" if has_gpu() else "cpu",
        "versions": dict(versions(MEASURING)),
    }
    key = hashlib.sha256(json.dumps({"recipe": RECIPE, **parameters}, sort_keys=True).encode()).hexdigest()
    record = cache / "evaluations" / f"{key}.json"
    found = _remembered(record)
    if found is not None:
        progress.note(f"{label}: the answers of an earlier run are reused")
        return found
    with lent(questions) as home, progress.task(label, total=min(limit, questions.available), unit="documents") as task:
        answered = worker.call(
            sandbox,
            "accuracy.evaluate_worker",
            {
                "mode": "evaluate",
                "model": str(tree.root),
                "threads": cores(),
                **{
                    name: parameters[name]
                    for name in ("tasks", "limit", "seed", "fewshot", "dtype", "batch_size", "device")
                },
            },
            readable=tree.folders,
            writable=[home] if home else [],
            env={**worker_environment(), **({"HF_HOME": str(home)} if home else {})},
            devices=has_gpu(),
            time_limit_s=time_limit_s,
            memory_limit_bytes=memory_limit_bytes,
            task=task,
        )
    results = Results(documents=_parse(answered), **parameters)
    record.parent.mkdir(parents=True, exist_ok=True)
    partial = record.with_suffix(f".{os.getpid()}.partial")
    partial.write_text(json.dumps(asdict(results)) + "\n", encoding="utf-8")
    partial.replace(record)
    return results


def _parse(answered: Any) -> tuple[Document, ...]:
    """The child has loaded a hostile model: its answer is read as strictly as a file from outside."""
    try:
        documents = _DOCUMENTS.validate_python(answered["documents"] if isinstance(answered, dict) else None)
    except (KeyError, ValidationError) as error:
        raise CannotDecideError(f"the evaluation's answer is malformed: {error}") from error
    if not documents:
        raise CannotDecideError("the tasks hold no documents", remedy="check quantization.tasks in the policy")
    return documents


def _remembered(record: Path) -> Results | None:
    try:
        return _RESULTS.validate_json(record.read_bytes())
    except (OSError, ValidationError):
        return None
