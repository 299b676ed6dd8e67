"""The engine of a stress check: what it is, whether it still lives, what it should need, and the evidence it leaves."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from modelctl.checks.base import (
    CheckContext,
    Coverage,
    Finding,
    LimitsT,
    Measurement,
    Observation,
    Scalar,
    Undecided,
)
from modelctl.errors import CannotDecideError
from modelctl.model.config import load_config
from modelctl.model.kinds import recognise
from modelctl.serving.answers import RequestRow
from modelctl.serving.bodies import Api
from modelctl.serving.client import EngineClient
from modelctl.serving.endpoint import Endpoint
from modelctl.serving.engine import EngineRefusedError
from modelctl.serving.engine_log import last_errors, read_tail
from modelctl.serving.metrics import EngineMetrics
from modelctl.sizing.kv import KvLayout, batches_in_flight, kv_layout

_LOG_KEPT_BYTES = 16 << 20
_DTYPE_NAMES = {"half": "float16", "float": "float32"}
"""What vLLM's `--dtype` also calls them."""
DYING_S = 6.0
"""A server whose worker was killed still answers for about 3 s."""


@dataclass(kw_only=True)
class Notes:
    """What a stress check found so far; `observation` closes it."""

    check: str
    findings: list[Finding] = field(default_factory=list)
    undecided: list[Undecided] = field(default_factory=list)
    measurements: list[Measurement] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def find(self, rule: str, message: str, remedy: str) -> None:
        """Add a finding `<check>.<rule>`."""
        self.findings.append(Finding(rule=f"{self.check}.{rule}", message=message, remedy=remedy))

    def cannot(self, reason: str, remedy: str | None = None) -> None:
        """Add something that could not be decided; the same reason counts once."""
        found = Undecided(reason=reason, remedy=remedy)
        if found not in self.undecided:
            self.undecided.append(found)

    def measure(self, name: str, value: Scalar, unit: str, parameters: Mapping[str, Scalar]) -> None:
        """Add a figure with everything that moves it, rounded to six digits after the point."""
        shown = round(value, 6) if isinstance(value, float) else value
        self.measurements.append(Measurement(name=name, value=shown, unit=unit, parameters=parameters))

    def observation(self, endpoint: Endpoint, coverage: Coverage) -> Observation:
        """Everything, with the engine named as the tool it rests on."""
        return Observation(
            coverage=(coverage,),
            findings=tuple(self.findings),
            undecided=tuple(self.undecided),
            measurements=tuple(self.measurements),
            warnings=tuple(self.warnings),
            tools={"engine": endpoint.version or "unknown"},
        )

    def unstarted(self, *, unit: str) -> Observation:
        """Everything, where no engine served what is judged."""
        return Observation(
            coverage=(Coverage(unit=unit, seen=0, total=1),),
            findings=tuple(self.findings),
            measurements=tuple(self.measurements),
            warnings=tuple(self.warnings),
        )


def refused(context: CheckContext[LimitsT], notes: Notes, error: EngineRefusedError, *, unit: str) -> Observation:
    """An engine that can't load the served tree is a finding against it; its log is kept."""
    context.evidence.keep("engine.log", read_tail(error.log, _LOG_KEPT_BYTES))
    notes.find("engine-cannot-load", error.message, f"{error.remedy}; engine.log in the evidence says more")
    return notes.unstarted(unit=unit)


def keep_evidence(
    context: CheckContext[LimitsT],
    endpoint: Endpoint,
    rows: Sequence[RequestRow],
    readings: Sequence[EngineMetrics] = (),
) -> None:
    """Leave every request's figures, the readings of the engine's metrics and its log so far."""
    context.evidence.keep("requests.jsonl.gz", _gzip_lines(rows))
    if readings:
        context.evidence.keep("metrics.jsonl.gz", _gzip_lines(readings))
    if endpoint.log is not None:
        context.evidence.keep("engine.log", read_tail(endpoint.log, _LOG_KEPT_BYTES))


def _gzip_lines(rows: Iterable[RequestRow | EngineMetrics]) -> bytes:
    lines = (json.dumps(asdict(row), sort_keys=True) for row in rows)
    return gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0)


async def died(client: EngineClient) -> str | None:
    """After a failure: why the engine is taken for dead, or None when it still answers some seconds later."""
    endpoint = client.endpoint
    deadline = client.now() + DYING_S
    while client.now() < deadline:
        if endpoint.pid is not None and not _process_lives(endpoint.pid):
            words = " | ".join(last_errors(endpoint.log)) if endpoint.log else ""
            return f"its process ended: {words or 'no words'}"
        try:
            await client.get_text("/v1/models")
        except CannotDecideError as error:
            if endpoint.pid is None:
                return error.message
        await asyncio.sleep(min(0.5, DYING_S))
    try:
        await client.get_text("/v1/models")
    except CannotDecideError as error:
        return error.message
    return None


def _process_lives(pid: int) -> bool:
    import psutil

    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def restarted(before: EngineMetrics | None, after: EngineMetrics | None) -> bool:
    """Whether another process answered the second reading: a new start time, or a counter that went back."""
    if before is None or after is None:
        return False
    if before.started_at is not None and after.started_at is not None and before.started_at != after.started_at:
        return True
    counted = (before.generation_tokens, after.generation_tokens)
    return counted[0] is not None and counted[1] is not None and counted[1] < counted[0]


def counted(before: float | None, after: float | None) -> float | None:
    """How far a counter went; None when either reading lacks it."""
    return None if before is None or after is None else after - before


def layout_of(context: CheckContext[LimitsT], endpoint: Endpoint, block_size: int) -> KvLayout:
    """The served model's KV layout as this engine keeps it. Raises `CannotDecideError` when it is not computed."""
    stored = endpoint.flags.get("--kv-cache-dtype", "auto")
    if stored == "auto":  # the cache is kept as the engine computes
        computed = endpoint.flags.get("--dtype", "auto")
        stored = _DTYPE_NAMES.get(computed, computed)
    return kv_layout(
        load_config(context.model),
        block_size=block_size,
        max_num_batched_tokens=context.serving.max_num_batched_tokens,
        tensor_parallel_size=context.serving.tensor_parallel_size,
        cache_dtype=stored,
        batches_in_flight=batches_in_flight(endpoint.version),
    )


def api_of(context: CheckContext[LimitsT], *, images: bool = False) -> Api:
    """What a repository of this kind is asked for: an embedding model for vectors, any other for text. With `images` a
    vision-language model is asked in a chat, where a picture may stand before the text."""
    kinds = {kind.name for kind in recognise(context.model)}
    if "embedding" in kinds:
        return "embeddings"
    return "chat" if images and "vision-language" in kinds else "completions"


def exact_answers(endpoint: Endpoint) -> bool:
    """Whether the engine may be asked for answers of an exact length: vLLM understands it, others may refuse it."""
    return endpoint.version is not None
