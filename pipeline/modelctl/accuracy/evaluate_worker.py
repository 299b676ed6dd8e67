"""The isolated child that answers multiple-choice documents with one model, through lm-eval.

Mode `fetch` loads the tasks' data only (without a model); mode `evaluate` loads the model, offline. Only native
architectures are loaded, and only tasks that score choices by likelihood. What is answered is told portion by portion,
so that a parent that keeps it can leave those portions out of the next request (`done`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from modelctl.accuracy import sampling, task_loading, unpacking
from modelctl.accuracy.methods import method_of
from modelctl.accuracy.precision import working_dtype
from modelctl.accuracy.reading import Text
from modelctl.accuracy.widening import widen
from modelctl.model.config import CONFIG_NAME, read_config
from modelctl.worker import serve

PROGRESS_STEPS = 50
"""At most so many messages a portion."""


def run(request: Any, progress: Callable[..., None]) -> dict[str, object]:
    """Fetch the data, or evaluate; see `evaluate.evaluate` for the request, the messages and the result."""
    progress(describe="load the questions")
    folder = Path(request["task_folder"]) if request["task_folder"] else None
    tasks = task_loading.load(request["tasks"], folder=folder)
    if request["mode"] == "fetch":
        return {"documents": sum(len(task.eval_docs) for task in tasks.values())}
    subjects = {
        name: [task_loading.subject(name, document) for document in task.eval_docs] for name, task in tasks.items()
    }
    places = sampling.sample(subjects, limit=request["limit"], seed=request["seed"])
    portions = sampling.portions(places)
    done = set(request["done"])
    texts = [Text(**text) for text in request["texts"]]
    waiting = [number for number in range(len(portions) + 1) if number not in done]
    meter = _Meter(progress)
    model = _wrap(request, meter, progress) if waiting else None
    for number in waiting:
        if number < len(portions):
            progress(part=number, documents=_answer(model, request, tasks, portions[number], meter), texts=[])
        else:
            progress(describe="read the texts")
            progress(part=number, documents=[], texts=[_read(model, text) for text in texts])
    return {"parts": len(portions) + 1, "documents": len(places)}


def _wrap(request: Any, meter: _Meter, progress: Callable[..., None]) -> Any:
    """The model as lm-eval drives it."""
    import lm_eval.models.huggingface as backend
    import torch
    import transformers

    torch.set_num_threads(request["threads"])
    if request["widen"]:
        widen()
    progress(describe="load the model")
    model = backend.HFLM(
        pretrained=_load_model(request),
        tokenizer=transformers.AutoTokenizer.from_pretrained(request["model"]),
        backend="causal",
        batch_size=request["batch_size"],
    )
    backend.tqdm = meter.bar(backend.tqdm)
    progress(describe="answer")
    return model


def _answer(
    model: Any, request: Any, tasks: Mapping[str, Any], portion: Mapping[str, list[int]], meter: _Meter
) -> list[dict[str, object]]:
    import lm_eval
    import transformers

    transformers.set_seed(request["seed"])
    for name in portion:
        if tasks[name].get_config("num_fewshot") != 0:  # a task that says none means it
            tasks[name].set_config(key="num_fewshot", value=request["fewshot"])
        tasks[name].set_fewshot_seed(seed=request["seed"])
    meter.begin(sum(map(len, portion.values())))
    # Not simple_evaluate, which also describes the machine: a second for every portion.
    found = lm_eval.evaluate(
        lm=model,
        task_dict={"tasks": {name: tasks[name] for name in portion}, "groups": {}},
        samples=dict(portion),
        bootstrap_iters=0,
        log_samples=True,
    )
    meter.end()
    return [
        _row(name, row)
        for name in sorted(found["samples"])
        for row in sorted(found["samples"][name], key=lambda row: row["doc_id"])
    ]


def _read(model: Any, text: Text) -> dict[str, object]:
    """How many bits the model needs to write one text."""
    from lm_eval.api.instance import Instance

    request = Instance(request_type="loglikelihood_rolling", doc={}, arguments=(text.text,), idx=0)
    likelihood = float(model.loglikelihood_rolling([request], disable_tqdm=True)[0])
    if not math.isfinite(likelihood):
        raise ValueError(f"the model's likelihood of the text '{text.name}' is not finite: {likelihood}")
    return {"name": text.name, "size_bytes": len(text.text.encode()), "bits": -likelihood / math.log(2)}


def _load_model(request: Any) -> Any:
    """The model, every weight of it. Raises `ValueError` when the files lack some: random weights would be measured."""
    import torch
    import transformers

    dtype = getattr(torch, request["dtype"])
    config = read_config(Path(request["model"], CONFIG_NAME))
    method = None if config.quantization is None else method_of(config.quantization)
    if method in ("gptq", "awq"):
        load = unpacking.load_gptq if method == "gptq" else unpacking.load_awq
        half = getattr(torch, working_dtype(config))
        return load(request["model"], half=half, dtype=dtype, device=request["device"])
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
    if "acc" not in row:
        raise ValueError(f"task {name} has no metric acc; add it to the task's metric_list")
    target = row["target"]
    return {
        "task": name,
        "doc_id": int(row["doc_id"]),
        "subject": task_loading.subject(name, row["doc"]),
        "doc_hash": row["doc_hash"],
        "prompt_hash": row["prompt_hash"],
        "target_hash": row["target_hash"],
        "choices": len(scores),
        "target": int(target) if str(target).isdigit() else str(target),
        "chosen": max(range(len(scores)), key=scores.__getitem__),
        "correct": bool(row["acc"]),
    }


class _Meter:
    """Turns the moves of lm-eval's progress bar into documents of the portion in work."""

    def __init__(self, progress: Callable[..., None]) -> None:
        self._progress = progress
        self._documents = 0
        self._told = 0.0

    def begin(self, documents: int) -> None:
        """A portion of so many documents is next."""
        self._documents, self._told = documents, 0.0

    def end(self) -> None:
        """All of them are answered."""
        self._progress(advance=self._documents - self._told)
        self._documents = 0

    def bar(self, kind: Any) -> Any:
        """A bar of lm-eval's kind that tells this meter."""

        def update(bar: Any, n: float = 1) -> object:
            shown = kind.update(bar, n)
            reached = self._documents * bar.n / bar.total if bar.total else 0.0
            if self._documents and reached - self._told >= self._documents / PROGRESS_STEPS:
                self._progress(advance=reached - self._told)
                self._told = reached
            return shown

        return type("Bar", (kind,), {"update": update})


if __name__ == "__main__":
    serve(run)
