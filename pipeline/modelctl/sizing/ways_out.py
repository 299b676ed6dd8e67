"""What to do when a model does not fit, the cheapest first: quantise the weights, the KV cache, shorten, more GPUs.

Each way is planned like the demand itself and offered only when it fits; two that fit together only are offered as
one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from modelctl.sizing.facts import ModelFacts
from modelctl.sizing.gpus import GPUS, Gpu
from modelctl.sizing.plan import RANKS, Demand, Plan, plan_on, possible_ranks
from modelctl.sizing.slices import larger_slices

BITS = 4
GROUP = 128
FP8 = "fp8"
OFFERED = 3
_SHORTEST = 1024
"""A shorter length than this is no way out (tokens)."""


@dataclass(frozen=True, kw_only=True)
class WayOut:
    """One change under which the model fits."""

    what: str
    plan: Plan


def ways_out(plan: Plan) -> tuple[WayOut, ...]:
    """At most three ways, in order of cost; none for a plan that fits already."""
    if plan.fits:
        return ()
    found = [way for way in _ways(plan) if way.plan.fits]
    return tuple(found[:OFFERED])


def quantised(facts: ModelFacts) -> ModelFacts | None:
    """The model with 4-bit weights in groups of 128 (estimate): all but embedding and head, with a 16-bit scale and a
    zero point for each group. None for one that is quantised already or is not stored in 16 bits."""
    config = facts.config
    if config.quantization is not None or config.dtype not in (None, "bfloat16", "float16"):
        return None
    tables = 1 if config.tie_word_embeddings else 2
    kept = min(facts.weight_bytes, (config.vocab_size or 0) * (config.hidden_size or 0) * 2 * tables)
    share = (BITS + (16 + BITS) / GROUP) / 16
    total = kept + int((facts.weight_bytes - kept) * share)
    return replace(facts, weight_bytes=total, measured=f"estimate for {BITS} bits in groups of {GROUP}")


def _ways(plan: Plan) -> Iterator[WayOut]:
    small = quantised(plan.facts)
    saved = f"quantise the weights to {BITS} bits"
    cache = replace(plan.demand, cache_dtype=FP8)
    may_cache = plan.demand.cache_dtype == "auto" and (plan.gpu.fp8 or plan.gpu.bandwidth_bytes_s is None)
    alone: list[WayOut] = []
    if small is not None:
        alone.append(WayOut(what=f"{saved} (admit measures what that costs)", plan=_again(plan, facts=small)))
    if may_cache:
        alone.append(
            WayOut(what=f"keep the KV cache in 8 bits (--kv-cache-dtype {FP8})", plan=_again(plan, demand=cache))
        )
    yield from alone
    if small is not None and may_cache and not any(way.plan.fits for way in alone):
        both = _again(plan, facts=small, demand=cache)
        yield WayOut(what=f"{saved} and keep the KV cache in 8 bits", plan=both)
    yield from _shorter(plan)
    yield from _more(plan)


def _shorter(plan: Plan) -> Iterator[WayOut]:
    """The longest length, in steps of 1024 tokens, at which all streams fit."""
    low, high = 0, plan.length // _SHORTEST
    while low < high:
        middle = (low + high + 1) // 2
        if _again(plan, demand=replace(plan.demand, length=middle * _SHORTEST)).fits:
            low = middle
        else:
            high = middle - 1
    if low:
        shorter = _again(plan, demand=replace(plan.demand, length=low * _SHORTEST))
        yield WayOut(what=f"serve at most {shorter.length:,} tokens instead of {plan.length:,}", plan=shorter)


def _more(plan: Plan) -> Iterator[WayOut]:
    if 0 < plan.streams < plan.demand.streams and not plan.over_stated:
        replicas = -(-plan.demand.streams // plan.streams)
        share = _again(plan, demand=replace(plan.demand, streams=-(-plan.demand.streams // replicas)))
        yield WayOut(what=f"{replicas} replicas that share the streams", plan=share)
    for larger in larger_slices(plan):
        if larger.fits:
            yield WayOut(
                what=f"{'a larger slice' if ':' in larger.gpu.name else 'the whole card'}, {larger.gpu.name}",
                plan=larger,
            )
            break
    for ranks in possible_ranks(plan.facts, plan.gpu, max(RANKS)):
        if ranks > plan.ranks:
            more = plan_on(plan.facts, plan.gpu, plan.demand, ranks=ranks)
            if more.fits:
                yield WayOut(what=f"{ranks} GPUs of this kind instead of {plan.ranks}", plan=more)
                break
    for gpu in sorted(GPUS.values(), key=_memory):
        if gpu.memory_bytes <= plan.gpu.memory_bytes or plan.gpu.name.startswith(f"{gpu.name}:"):
            continue
        whole = plan_on(plan.facts, gpu, plan.demand, ranks=1)
        if whole.fits:
            yield WayOut(what=f"one {gpu.name}", plan=whole)
            break


def _memory(gpu: Gpu) -> int:
    return gpu.memory_bytes


def _again(plan: Plan, *, facts: ModelFacts | None = None, demand: Demand | None = None) -> Plan:
    return plan_on(facts or plan.facts, plan.gpu, demand or plan.demand, ranks=plan.ranks)
