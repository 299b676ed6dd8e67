"""The launch checklist of a report's page: what an operator asks before the first request, each answered by a figure of
the checks, or by the command that would answer it. Nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from modelctl.admission.report import Report
from modelctl.admission.terminal import size_text
from modelctl.checks.base import Measurement, Scalar
from modelctl.page.document import Code
from modelctl.sizing.cost import cost_per_million

Figures = Mapping[tuple[str, str], Measurement]
Row = tuple[str, str, str]
"""What is asked, the answer, and under what it holds."""


def launch(report: Report) -> Iterator[tuple[str, list[Row]]]:
    """The groups of the list, each with its rows."""
    figures = {(check.id, item.name): item for check in report.checks for item in reversed(check.measurements)}
    served = {
        item.name: item
        for check in report.checks
        if check.id == "integrity"
        for item in check.measurements
        if item.parameters.get("tree") == "served" or report.model.served_digest == report.model.source_digest
    }
    named = report.model.release or "REPO"
    yield "Environment", list(_environment(report, figures))
    yield "Memory", list(_memory(report, figures, served, named))
    yield "Flags", list(_flags(figures, named))
    yield "Load", list(_load(figures))
    yield "Cost", list(_cost(report, figures, named))
    yield "Roll-out", list(_rollout(report, named))


def _environment(report: Report, figures: Figures) -> Iterator[Row]:
    machines = [(run.machine, ", ".join(run.checks)) for run in report.runs] or [(report.machine, "all checks")]
    for machine, checks in machines:
        gpus = ", ".join(machine.gpus) or "no GPU"
        yield "machine", f"{machine.hostname}: {machine.cpus} CPUs, {size_text(machine.memory_bytes)}, {gpus}", checks
    engine = {name: version for check in report.checks if check.id in _STRESS for name, version in check.tools.items()}
    named = {"version" if name == "engine" else name: version for name, version in engine.items()}
    versions = ", ".join(f"{name} {version}" for name, version in named.items())
    yield "engine", versions or _missing("--check long-context --check concurrency"), ""
    dtype = _first(figures, "engine-dtype")
    if dtype is not None:
        yield "computes in", str(dtype.value), _under(dtype, ("device", "quantization"))
    backend = _first(figures, "engine-attention-backend")
    said = backend is not None and backend.value is not None
    yield "attention backend", str(backend.value) if backend and said else "the engine does not say it", ""


def _memory(report: Report, figures: Figures, served: Mapping[str, Measurement], named: str) -> Iterator[Row]:
    weights = _number(served.get("tensor-bytes"))
    needed, pool = figures.get(("concurrency", "kv-blocks-needed")), figures.get(("concurrency", "kv-blocks-pool"))
    block = pool.parameters.get("block_bytes") if pool else None
    cache = (
        _number(needed) * float(block)
        if needed and isinstance(block, int | float) and not isinstance(block, bool)
        else None
    )
    yield "weights", size_text(weights) if weights else _missing("--check integrity"), "as they lie in the served files"
    yield (
        "KV cache that the load needs",
        f"{size_text(cache)} ({needed.value} blocks)"
        if needed and cache is not None
        else _missing("--check concurrency"),
        _under(needed, ("streams", "length")),
    )
    if pool is not None:
        tokens = figures.get(("concurrency", "engine-kv-pool"))
        yield "KV cache of the engine", f"{pool.value} blocks", _under(tokens, ("tokens", "dtype"))
    if weights and cache is not None:
        yield "both together", size_text(weights + cache), "a lower bound: without activations and the engine itself"
    peak = figures.get(("long-context", "memory-peak"))
    yield "measured at most", _value(peak) if peak else _missing("--check long-context"), _under(peak, ("source",))
    yield "estimate for a GPU", Code(f"modelctl size {named} --gpu GPU"), "before any engine is started"


def _flags(figures: Figures, named: str) -> Iterator[Row]:
    longest = figures.get(("long-context", "longest-answered"))
    load = _first(figures, "throughput")
    knee = figures.get(("concurrency", "knee"))
    why = "the longest that was answered"
    yield "--max-model-len", str(longest.value) if longest else _missing("--check long-context"), why if longest else ""
    streams = knee.value if knee else load.parameters.get("streams") if load else None
    if streams is None:
        yield "--max-num-seqs", _missing("--check concurrency"), ""
    else:
        yield "--max-num-seqs", str(streams), "where more streams stop paying" if knee else "the load that was held"
    yield "all flags, with reasons", Code(f"modelctl size {named}"), "the manifests of a roll-out carry them"


def _load(figures: Figures) -> Iterator[Row]:
    if ("concurrency", "requests") not in figures:
        yield "load test", _missing("--check concurrency"), ""
        return
    load = _under(figures.get(("concurrency", "throughput")), _OF_LOAD)
    for what, name in _LOAD:
        item = figures.get(("concurrency", name))
        yield what, _value(item) if item else "not measured", load if name == "requests" else ""
    knee = figures.get(("concurrency", "knee"))
    yield (
        "streams where more stop paying",
        str(knee.value) if knee else Code("modelctl stress URL"),
        "" if knee else "not measured: one load was run, no sweep",
    )


def _cost(report: Report, figures: Figures, named: str) -> Iterator[Row]:
    rate = figures.get(("concurrency", "throughput"))
    gpus = max(len(run.machine.gpus) for run in report.runs) if report.runs else len(report.machine.gpus)
    if rate is None or _number(rate) <= 0:
        yield "cost per million tokens", _missing("--check concurrency"), ""
        return
    hours = cost_per_million(price_per_hour=1, gpus=1, tokens_per_s=_number(rate))
    machine = f"{gpus} GPUs" if gpus > 1 else "one GPU" if gpus else "a machine without a GPU: no price follows"
    yield "hours per million written tokens", f"{hours:,.3g}", f"at the measured {_value(rate)} on {machine}"
    command = f"modelctl size {named} --gpu GPU --price MONEY --throughput {_number(rate):.4g}"
    yield "cost per million tokens", Code(command), "no price is known here: the hours, times that of an hour"


def _rollout(report: Report, named: str) -> Iterator[Row]:
    if report.model.release is None:
        yield "publication", "needs a release file", "registry/NAME/VERSION/release.yaml"
        return
    if report.verdict != "admitted":
        yield "publication", "not before it is admitted", ""
        return
    yield "publication", Code(f"modelctl publish {named}"), "once, signed"
    yield "canary", Code(f"modelctl rollout {named} --env ENV"), "as one commit"
    yield "dashboards and alerts", "written by the roll-out", "where the environment asks for them"


_STRESS = ("long-context", "concurrency")
_LOAD = (
    ("requests", "requests"),
    ("failed", "failed-requests"),
    ("waiting at most", "waiting-max"),
    ("time to first token, half of them", "ttft-p50"),
    ("time to first token, 95 %", "ttft-p95"),
    ("time per output token, 95 %", "tpot-p95"),
    ("throughput", "throughput"),
)
_OF_LOAD = ("streams", "duration_s", "prompt_tokens", "answer_tokens")
_WORDS = {
    "streams": "{} streams", "duration_s": "for {} s", "prompt_tokens": "{} tokens of prompt",
    "answer_tokens": "{} of answer", "length": "{} tokens each", "tokens": "room for {} tokens", "dtype": "in {}",
    "source": "{}", "device": "on {}", "quantization": "{}",
}  # fmt: skip


def _under(item: Measurement | None, keys: tuple[str, ...]) -> str:
    found = [(key, item.parameters[key]) for key in keys if key in item.parameters] if item else []
    return ", ".join(_WORDS[key].format(_plain(value)) for key, value in found if value not in (None, "auto"))


def _plain(value: Scalar) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _value(item: Measurement) -> str:
    if item.unit in ("bytes", "B"):
        return size_text(_number(item))
    value = f"{item.value:,.4g}" if isinstance(item.value, float) else _plain(item.value)
    return f"{value} {item.unit}".strip()


def _number(item: Measurement | None) -> float:
    value = item.value if item else 0
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def _first(figures: Figures, name: str) -> Measurement | None:
    return next((figures[key, name] for key in reversed(_STRESS) if (key, name) in figures), None)


def _missing(checks: str) -> str:
    return f"not measured: modelctl admit … {checks}"
