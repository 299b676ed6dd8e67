"""The isolated child that answers multiple-choice documents with one model, through lm-eval.

Mode `fetch` loads the tasks' data only (with network, without a model); mode `evaluate` loads the model offline. Only
native architectures are loaded, and only tasks that score choices by likelihood. Which documents are asked depends on
the data, the limit and the seed alone, so that two models answer the same ones.
"""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from modelctl.worker import serve

SHIPPED = Path(__file__).parent / "tasks"
PROGRESS_STEPS = 200


def stratified(groups: Mapping[str, Sequence[int]], *, limit: int, seed: int) -> dict[str, list[int]]:
    """A random sample of `limit` items, each group in proportion to its size (largest remainders), sorted within a
    group."""
    total = sum(len(items) for items in groups.values())
    limit = min(limit, total)
    shares = {name: limit * len(items) / total for name, items in groups.items()}
    counts = {name: int(share) for name, share in shares.items()}
    by_remainder = sorted(groups, key=lambda name: (counts[name] - shares[name], name))
    for name in by_remainder[: limit - sum(counts.values())]:
        counts[name] += 1
    rng = random.Random(seed)  # noqa: S311 - a sample, no secret
    return {name: sorted(rng.sample(list(groups[name]), counts[name])) for name in sorted(groups)}


def run(request: Any, progress: Callable[..., None]) -> dict[str, object]:
    """Fetch the data, or evaluate; see `evaluate.evaluate` for the request and the result."""
    from lm_eval.tasks import TaskManager

    os.chdir(SHIPPED)  # the shipped task names its data relative to its own folder
    names = list(request["tasks"])
    shipped = {path.stem for path in SHIPPED.glob("*.yaml")}
    manager = TaskManager(include_path=str(SHIPPED), include_defaults=not shipped.issuperset(names))
    progress(describe="load the questions")
    tasks = _load(manager, names)
    if request["mode"] == "fetch":
        return {"documents": sum(len(task.eval_docs) for task in tasks.values())}
    sample = _sample(tasks, limit=request["limit"], seed=request["seed"])
    return {"documents": _answer(request, manager, tasks, sample, progress)}


def _load(manager: Any, names: Sequence[str]) -> dict[str, Any]:
    """Every single task below the given names. Raises `ValueError` for a task that isn't multiple choice."""
    tasks: dict[str, Any] = manager.load(list(names))["tasks"]
    for name, task in tasks.items():
        if task.OUTPUT_TYPE != "multiple_choice":
            raise ValueError(
                f"task {name} is {task.OUTPUT_TYPE}; only multiple_choice tasks compare document by document"
            )
    return tasks


def _subject(task_name: str, document: Mapping[str, Any]) -> str:
    return str(document.get("subject") or task_name)


def _sample(tasks: Mapping[str, Any], *, limit: int, seed: int) -> dict[str, list[int]]:
    places: list[tuple[str, int]] = []
    groups: dict[str, list[int]] = {}
    for name, task in tasks.items():
        for index, document in enumerate(task.eval_docs):
            groups.setdefault(f"{name}\0{_subject(name, document)}", []).append(len(places))
            places.append((name, index))
    chosen: dict[str, list[int]] = {}
    for items in stratified(groups, limit=limit, seed=seed).values():
        for item in items:
            name, index = places[item]
            chosen.setdefault(name, []).append(index)
    return {name: sorted(indices) for name, indices in chosen.items()}


def _answer(
    request: Any,
    manager: Any,
    tasks: Mapping[str, Any],
    sample: Mapping[str, list[int]],
    progress: Callable[..., None],
) -> list[dict[str, object]]:
    import lm_eval
    import lm_eval.models.huggingface as backend
    import torch
    import transformers

    torch.set_num_threads(request["threads"])
    progress(describe="load the model")
    model = backend.HFLM(
        pretrained=_load_model(request),
        tokenizer=transformers.AutoTokenizer.from_pretrained(request["model"]),
        backend="causal",
        batch_size=request["batch_size"],
    )
    documents = sum(len(indices) for indices in sample.values())
    progress(describe="answer")
    backend.tqdm = _bar(backend.tqdm, documents, progress)
    found = lm_eval.simple_evaluate(
        model=model,
        tasks=[name for name in tasks if name in sample],
        num_fewshot=request["fewshot"],
        samples=dict(sample),
        task_manager=manager,
        bootstrap_iters=0,
        log_samples=True,
        random_seed=request["seed"],
        numpy_random_seed=request["seed"],
        torch_random_seed=request["seed"],
        fewshot_random_seed=request["seed"],
    )
    return [
        _row(name, row)
        for name in sorted(found["samples"])
        for row in sorted(found["samples"][name], key=lambda row: row["doc_id"])
    ]


def _load_model(request: Any) -> Any:
    """The model, every weight of it. Raises `ValueError` when the files lack some: random weights would be measured."""
    import torch
    import transformers

    dtype = getattr(torch, request["dtype"])
    config = json.loads(Path(request["model"], "config.json").read_text(encoding="utf-8"))
    if (config.get("quantization_config") or {}).get("quant_method") == "gptq":
        # transformers' own GPTQ loader does not know of modules that stay unquantised and makes zeros of them.
        from gptqmodel import GPTQModel

        return GPTQModel.load(request["model"], device=request["device"], dtype=dtype, trust_remote_code=False).model
    model, told = transformers.AutoModelForCausalLM.from_pretrained(
        request["model"], dtype=dtype, trust_remote_code=False, output_loading_info=True
    )
    wrong = sorted(map(str, [*told["missing_keys"], *told["mismatched_keys"]]))
    if wrong:
        raise ValueError(f"the weight files lack {len(wrong)} tensors that the model has: {', '.join(wrong[:3])}")
    return model.to(request["device"])


def _row(name: str, row: Mapping[str, Any]) -> dict[str, object]:
    scores = [float(answer[0]) for answer in row["filtered_resps"]]
    if not all(map(math.isfinite, scores)):
        raise ValueError(f"the model's likelihoods are not finite ({name}, document {row['doc_id']}): {scores}")
    target = row["target"]
    return {
        "task": name,
        "doc_id": int(row["doc_id"]),
        "subject": _subject(name, row["doc"]),
        "doc_hash": row["doc_hash"],
        "prompt_hash": row["prompt_hash"],
        "target_hash": row["target_hash"],
        "choices": len(scores),
        "target": int(target) if str(target).isdigit() else str(target),
        "chosen": max(range(len(scores)), key=scores.__getitem__),
        "correct": bool(row["acc"]),
    }


def _bar(kind: Any, documents: int, progress: Callable[..., None]) -> Any:
    """lm-eval's own progress bar, which also tells its share of the documents."""
    told = 0.0

    def update(bar: Any, n: float = 1) -> object:
        nonlocal told
        shown = kind.update(bar, n)
        if bar.total and (bar.n - told >= bar.total / PROGRESS_STEPS or bar.n >= bar.total):
            progress(advance=documents * (bar.n - told) / bar.total)
            told = bar.n
        return shown

    return type("Bar", (kind,), {"update": update})


if __name__ == "__main__":
    serve(run)
