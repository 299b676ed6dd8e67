"""What an engine says of itself on `/metrics`, under the names of this and of earlier vLLM releases.

A figure that is not there is None, never 0: whoever judges by it has to say that it could not. Series are matched by
their full name and added up over the engines of a data-parallel server.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass

from modelctl.errors import CannotDecideError
from modelctl.serving.client import EngineClient

RUNNING = ("vllm:num_requests_running",)
WAITING = ("vllm:num_requests_waiting",)
WAITING_BY_REASON = "vllm:num_requests_waiting_by_reason"
KV_USAGE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
PREEMPTIONS = ("vllm:num_preemptions_total",)
PROMPT_TOKENS = ("vllm:prompt_tokens_total",)
GENERATION_TOKENS = ("vllm:generation_tokens_total",)
PREFIX_QUERIES = ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total")
PREFIX_HITS = ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total")
STARTED_AT = ("process_start_time_seconds",)
CACHE_CONFIG = "vllm:cache_config_info"

_LINE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+-?\d+)?$")
_LABEL = re.compile(r'(?P<key>[a-zA-Z_]\w*)="(?P<value>(?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One series of a metrics page."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, kw_only=True)
class EngineMetrics:
    """One reading. Counters are totals since the engine started; None: the engine does not say."""

    at_s: float
    """On the client's clock."""
    running: float | None
    waiting: float | None
    """Requests that wait for capacity; requests deferred for other reasons are left out where the engine tells them
    apart."""
    kv_usage: float | None
    """The fullest engine's share of KV blocks in use, 0 to 1."""
    kv_blocks_used: float | None
    """Blocks in use, over all engines."""
    kv_blocks: int | None
    """Blocks of the pool that requests can have, over all engines."""
    block_size: int | None
    """Tokens per block."""
    preemptions: float | None
    prompt_tokens: float | None
    generation_tokens: float | None
    prefix_queries: float | None
    prefix_hits: float | None
    started_at: float | None
    """When the server process started, seconds since 1970."""


def parse_page(text: str) -> tuple[Sample, ...]:
    """The samples of a page in Prometheus text format; comments and unreadable lines are passed over."""
    samples = []
    for line in text.splitlines():
        match = _LINE.match(line.strip())
        if match is None or line.startswith("#"):
            continue
        try:
            value = float(match["value"])
        except ValueError:
            continue
        labels = {found["key"]: found["value"] for found in _LABEL.finditer(match["labels"] or "")}
        samples.append(Sample(name=match["name"], labels=labels, value=value))
    return tuple(samples)


def read_metrics(text: str, *, at_s: float) -> EngineMetrics:
    """The figures of a page."""
    samples = parse_page(text)
    waiting = [
        sample.value
        for sample in samples
        if sample.name == WAITING_BY_REASON and sample.labels.get("reason") == "capacity"
    ]
    usages = {sample.labels.get("engine", ""): sample.value for sample in _first(samples, KV_USAGE)}
    pools = {
        sample.labels.get("engine", ""): pool
        for sample in samples
        if sample.name == CACHE_CONFIG and (pool := _blocks(sample)) is not None
    }
    sizes = {size for sample in samples if sample.name == CACHE_CONFIG and (size := _block_size(sample)) is not None}
    used = None
    if usages and usages.keys() <= pools.keys():
        used = sum(usage * pools[engine] for engine, usage in usages.items())
    return EngineMetrics(
        at_s=at_s,
        running=_total(samples, RUNNING),
        waiting=sum(waiting) if waiting else _total(samples, WAITING),
        kv_usage=max(usages.values(), default=None),
        kv_blocks_used=used,
        kv_blocks=sum(pools.values()) if pools else None,
        block_size=sizes.pop() if len(sizes) == 1 else None,
        preemptions=_total(samples, PREEMPTIONS),
        prompt_tokens=_total(samples, PROMPT_TOKENS),
        generation_tokens=_total(samples, GENERATION_TOKENS),
        prefix_queries=_total(samples, PREFIX_QUERIES),
        prefix_hits=_total(samples, PREFIX_HITS),
        started_at=_total(samples, STARTED_AT),
    )


async def fetch_metrics(client: EngineClient) -> EngineMetrics | None:
    """One reading, or None when the engine has no such page or does not answer."""
    try:
        page = await client.get_text("/metrics")
    except CannotDecideError:
        return None
    return read_metrics(page, at_s=client.now())


class Scraper:
    """Reads the metrics at a steady pace for the time of an `async with` block."""

    def __init__(self, client: EngineClient, *, interval_s: float) -> None:
        self.readings: list[EngineMetrics] = []
        self.missed = 0
        """Readings that did not come back."""
        self._client = client
        self._interval_s = interval_s
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Scraper:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        due = self._client.now()
        while True:
            reading = await fetch_metrics(self._client)
            if reading is None:
                self.missed += 1
            else:
                self.readings.append(reading)
            due = max(due + self._interval_s, self._client.now())
            await asyncio.sleep(due - self._client.now())


def _first(samples: tuple[Sample, ...], names: tuple[str, ...]) -> list[Sample]:
    for name in names:
        found = [sample for sample in samples if sample.name == name]
        if found:
            return found
    return []


def _total(samples: tuple[Sample, ...], names: tuple[str, ...]) -> float | None:
    found = _first(samples, names)
    return sum(sample.value for sample in found) if found else None


def _blocks(sample: Sample) -> int | None:
    blocks = _whole(sample.labels.get("num_gpu_blocks"))
    # One block is kept as the null block: requests never get it, and the usage gauge leaves it out.
    return blocks - 1 if blocks is not None and blocks > 1 else None


def _block_size(sample: Sample) -> int | None:
    return _whole(sample.labels.get("effective_attention_block_size")) or _whole(sample.labels.get("block_size"))


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
