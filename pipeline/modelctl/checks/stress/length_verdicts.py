"""Judges and measures a walk over lengths: KV use against what was computed, latency and memory over the length."""

from __future__ import annotations

from collections.abc import Sequence

from modelctl.checks.base import Scalar
from modelctl.checks.stress.lengths import LengthSeen, LengthWalk
from modelctl.checks.stress.limits import LengthLimits
from modelctl.checks.stress.session import Notes
from modelctl.serving.answers import percentile
from modelctl.sizing.kv import KvLayout

_SPARE_BLOCKS = 2
"""An engine may hold a block for the token to come, and one more that it schedules ahead."""
_MIB = 1 << 20


def judge_preemptions(walk: LengthWalk, notes: Notes) -> None:
    """One request alone must never be preempted."""
    preempted = walk.preempted
    if preempted is None:
        notes.cannot(
            "the engine does not report preemptions (vllm:num_preemptions_total)", "serve with /metrics switched on"
        )
    elif preempted > 0:
        notes.find(
            "preempted",
            f"{preempted:g} preemptions while one request at a time was served: the KV pool is too small",
            "give the engine more KV cache, or state a smaller max_model_len",
        )


def kv_is_readable(answered: Sequence[LengthSeen], notes: Notes) -> bool:
    """Whether the KV use that was read is that of the requests that were sent; what hinders is noted."""
    if any(seen.crowded for seen in answered):
        notes.cannot("other requests ran on the engine: KV use can't be told apart", "let the check have it alone")
        return False
    if answered[-1].block_size is None or not answered[-1].peak_blocks:
        notes.cannot(
            "the engine does not report its KV use (vllm:kv_cache_usage_perc with vllm:cache_config_info)",
            "serve with /metrics switched on, in a release of vLLM that has both",
        )
        return False
    return True


def judge_kv(limits: LengthLimits, answered: Sequence[LengthSeen], layout: KvLayout, notes: Notes) -> None:
    """No length may hold more KV blocks than the sizing says."""
    for seen in answered:
        need = layout.need_blocks(seen.length)
        allowed = need * (1 + limits.kv_tolerance) + _SPARE_BLOCKS
        parameters: dict[str, Scalar] = {
            "length": seen.length,
            "block_size": layout.block_size,
            "batched_tokens": layout.batched_tokens,
        }
        notes.measure("kv-blocks-computed", need, "blocks", parameters)
        if seen.peak_blocks is not None and seen.peak_blocks > allowed:
            notes.find(
                "kv-use",
                f"{seen.peak_blocks:.0f} KV blocks in use at {seen.length} tokens, computed are {need} "
                f"({layout.block_bytes} bytes each); allowed are {allowed:.0f}",
                "look for a wrong head count or window in config.json; the engine holds fewer streams than planned",
            )
    longest = answered[-1]
    if (longest.peak_blocks or 0) < 0.75 * layout.need_blocks(longest.prompt_tokens):
        notes.warnings.append(
            f"only {longest.peak_blocks:.0f} of {layout.need_blocks(longest.prompt_tokens)} computed KV blocks were "
            f"seen at {longest.length} tokens: the gauge was read {longest.readings} times"
        )


def judge_growth(limits: LengthLimits, walk: LengthWalk, notes: Notes) -> None:
    """Time per token and time to the first one at the longest length, against the shortest."""
    answered = [seen for seen in walk.seen if seen.ttfts_s]
    if len(answered) < 2:
        return
    ends = {"shortest": answered[0].length, "longest": answered[-1].length}
    _measure_ratio("ttft-growth", answered[0].ttfts_s, answered[-1].ttfts_s, ends, notes)
    growth = _measure_ratio("tpot-growth", answered[0].tpots_s, answered[-1].tpots_s, ends, notes)
    if growth is not None and limits.max_tpot_growth is not None and growth > limits.max_tpot_growth:
        notes.find(
            "slow",
            f"a token takes {growth:.1f} times as long at {answered[-1].length} tokens as at {answered[0].length}; "
            f"the limit is {limits.max_tpot_growth:g} (long-context.max_tpot_growth)",
            "look at engine.log for a fallback attention kernel, or state a smaller max_model_len",
        )


def judge_memory(limits: LengthLimits, walk: LengthWalk, source: str | None, notes: Notes) -> None:
    """The peak of the engine's memory, and whether it grows with the length: a pool that is allocated at start does
    not."""
    read = [(seen.length, seen.memory_bytes) for seen in walk.seen if seen.memory_bytes is not None]
    peak = max((used for _, used in read), default=None)
    notes.measure("memory-peak", None if peak is None else round(peak / _MIB), "MiB", {"source": source})
    if peak is None:
        notes.warnings.append("the engine's memory was not read: it is not ours to look at, or nothing here reads it")
        return
    if len(read) < 2:
        return
    (shortest, first), (longest, last) = read[0], read[-1]
    growth = last / first - 1
    notes.measure("memory-growth", growth, "", {"shortest": shortest, "longest": longest, "source": source})
    if growth > limits.max_memory_growth:
        notes.warnings.append(
            f"the engine's memory grew by {growth:.1%}, from {first / _MIB:,.0f} MiB at {shortest} tokens to "
            f"{last / _MIB:,.0f} MiB at {longest} ({source}); the limit is {limits.max_memory_growth:.1%} "
            "(long-context.max_memory_growth): leave room for it"
        )


def describe_length(seen: LengthSeen) -> str:
    """One length in a line, for whoever waits."""
    if seen.trouble is not None and seen.trouble.rule != "degenerate":
        return seen.trouble.message
    words = [f"{seen.length:,} tokens: first token after {percentile(seen.ttfts_s, 0.5) or 0:.2f} s"]
    tpot = percentile(seen.tpots_s, 0.5)
    if tpot is not None:
        words.append(f"{tpot * 1000:.1f} ms a token")
    if seen.peak_blocks is not None:
        words.append(f"{seen.peak_blocks:.0f} KV blocks")
    if seen.memory_bytes is not None:
        words.append(f"{seen.memory_bytes / _MIB:,.0f} MiB")
    return ", ".join(words)


def measure_lengths(limits: LengthLimits, walk: LengthWalk, notes: Notes) -> None:
    """Add the figures of every length, and where it ends."""
    parameters: dict[str, Scalar] = {
        "stated_maximum": walk.maximum,
        "prompts_per_length": limits.prompts_per_length,
        "answer_tokens": limits.answer_tokens,
        "seed": limits.seed,
    }
    notes.measure("longest-answered", walk.longest, "tokens", parameters)
    if walk.cliff is not None:
        cliff = walk.cliff
        found: dict[str, Scalar] = {"works": cliff.works, "lengths_tried": cliff.tried, "not_narrowed": cliff.ended}
        notes.measure("cliff", cliff.fails, "tokens", {**parameters, **found})
    for seen in walk.seen:
        each: dict[str, Scalar] = {"length": seen.length, "prompts": len(seen.ttfts_s)}
        notes.measure("ttft-p50", percentile(seen.ttfts_s, 0.5), "s", each)
        notes.measure("tpot-p50", percentile(seen.tpots_s, 0.5), "s", each)
        notes.measure("kv-blocks-peak", seen.peak_blocks, "blocks", {**each, "readings": seen.readings})


def _measure_ratio(
    name: str, first: Sequence[float], last: Sequence[float], ends: dict[str, int], notes: Notes
) -> float | None:
    below, above = percentile(first, 0.5), percentile(last, 0.5)
    if not below or above is None:
        return None
    notes.measure(name, above / below, "", dict(ends))
    return above / below
