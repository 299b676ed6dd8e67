"""Up to the stated maximum length: the engine answers, uses the KV cache that was computed, and has no cliff.

Device memory says nothing here, since an engine allocates its KV pool at start. So unique prompts of growing length
are sent alone, and the share of the pool in use is read while each is answered.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from modelctl.checks.base import CheckContext, CheckLimits, Coverage, Observation, Scalar
from modelctl.checks.stress.lengths import LengthSeen, LengthWalk
from modelctl.checks.stress.session import Notes, keep_evidence, layout_of, refused, restarted
from modelctl.errors import CannotDecideError
from modelctl.model.config import load_config
from modelctl.serving.answers import percentile
from modelctl.serving.client import EngineClient
from modelctl.serving.endpoint import Endpoint
from modelctl.serving.engine import EngineRefusedError
from modelctl.serving.prompts import prompt_maker

Fraction = Annotated[float, Field(gt=0, le=1)]
_SPARE_BLOCKS = 2
"""An engine may hold a block for the token to come, and one more that it schedules ahead."""


class LongContextLimits(CheckLimits):
    """Limits of the check; lengths count prompt and answer, in tokens."""

    fractions: Annotated[tuple[Fraction, ...], Field(min_length=1)] = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9)
    """Lengths to try, as shares of the stated maximum; the maximum itself is always tried."""
    min_length: Annotated[int, Field(ge=32)] = 128
    """The shortest length; a long prompt's last part of this length is the reference for a strange answer."""
    prompts_per_length: Annotated[int, Field(ge=1)] = 3
    answer_tokens: Annotated[int, Field(ge=8)] = 64
    request_time_limit_s: Annotated[float, Field(gt=0)] = 600
    kv_tolerance: Annotated[float, Field(ge=0)] = 0.1
    """How far over the computed KV use the measured one may be, as a share."""
    require_computed_kv: bool = True
    """Whether a model whose KV cache modelctl can't compute stays undecided; False: it is only warned of."""
    max_tpot_growth: Annotated[float, Field(gt=1)] | None = None
    """Time per token at the maximum, against the shortest length; None: measured, not judged."""
    scrape_s: Annotated[float, Field(gt=0)] = 0.05
    seed: int = 0
    time_limit_s: Annotated[int, Field(ge=1)] = 7200


class LongContextCheck:
    """The check."""

    id: ClassVar[str] = "long-context"
    decides: ClassVar[str] = "Prompts up to the stated maximum are answered, with the KV cache that was computed."
    scope: ClassVar[Literal["tree", "release"]] = "release"
    headline: ClassVar[tuple[str, ...]] = ("longest-answered", "tpot-growth")

    def run(self, context: CheckContext[LongContextLimits]) -> Observation:
        """Send prompts of growing length. Raises `CannotDecideError` when no engine can be had."""
        try:
            endpoint = context.resources.engine()
        except EngineRefusedError as error:
            return refused(context, self.id, error, unit="lengths")
        return asyncio.run(_observe(context, endpoint))


CHECK = LongContextCheck()


def stated_maximum(context: CheckContext[LongContextLimits], endpoint: Endpoint) -> int:
    """The longest prompt plus answer that the release promises, in tokens. Raises `CannotDecideError`."""
    stated = context.serving.max_model_len or load_config(context.served).max_position_embeddings
    length = stated or endpoint.max_model_len
    if length is None:
        raise CannotDecideError(
            "neither the release, config.json nor the engine states a maximum length",
            remedy="write spec.serving.max_model_len in release.yaml",
        )
    return length


def lengths_to_try(limits: LongContextLimits, maximum: int) -> tuple[int, ...]:
    """The lengths in rising order: those of `fractions` that hold a prompt and an answer, and the maximum."""
    shortest = max(limits.min_length, 2 * limits.answer_tokens)
    if maximum < shortest:
        raise CannotDecideError(
            f"the stated maximum of {maximum} tokens is under the shortest length to try, {shortest}",
            remedy="lower long-context.min_length and answer_tokens in the policy",
        )
    return tuple(sorted({min(maximum, max(shortest, int(maximum * share))) for share in limits.fractions} | {maximum}))


async def _observe(context: CheckContext[LongContextLimits], endpoint: Endpoint) -> Observation:
    limits = context.limits
    maximum = stated_maximum(context, endpoint)
    lengths = lengths_to_try(limits, maximum)
    notes = Notes(check=CHECK.id)
    limit_s = limits.request_time_limit_s
    async with EngineClient(endpoint, silence_limit_s=limit_s, time_limit_s=limit_s) as client:
        walk = LengthWalk(
            client=client,
            prompts=await prompt_maker(client, seed=limits.seed),
            notes=notes,
            maximum=maximum,
            answer_tokens=limits.answer_tokens,
            reference_tokens=limits.min_length,
            per_length=limits.prompts_per_length,
            scrape_s=limits.scrape_s,
        )
        total = len(lengths) * limits.prompts_per_length + 1
        with context.progress.task("long prompts", total=total, unit="requests") as task:
            await walk.run(lengths, task)
    _judge_kv(context, endpoint, walk, notes)
    _judge_growth(limits, walk, notes)
    if restarted(walk.before, walk.after):
        notes.find("restarted", "the engine was restarted while it was tested", "see engine.log in the evidence")
    _measure(limits, maximum, walk, notes)
    keep_evidence(context, endpoint, walk.rows)
    return notes.observation(endpoint, _coverage(lengths, walk))


def _coverage(lengths: tuple[int, ...], walk: LengthWalk) -> Coverage:
    tried = [seen.length for seen in walk.seen]
    left = [str(length) for length in lengths if length not in tried]
    excluded = (f"{', '.join(left)} tokens: not tried after the failure before",) if left else ()
    return Coverage(unit="lengths", seen=len(tried), total=len(lengths), excluded=excluded)


def _judge_kv(context: CheckContext[LongContextLimits], endpoint: Endpoint, walk: LengthWalk, notes: Notes) -> None:
    answered = [seen for seen in walk.seen if seen.ttfts_s]
    if not answered:
        return
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
    if any(seen.crowded for seen in answered):
        notes.cannot("other requests ran on the engine: KV use can't be told apart", "let the check have it alone")
        return
    longest = answered[-1]
    if longest.block_size is None or not longest.peak_blocks:
        notes.cannot(
            "the engine does not report its KV use (vllm:kv_cache_usage_perc with vllm:cache_config_info)",
            "serve with /metrics switched on, in a release of vLLM that has both",
        )
        return
    try:
        layout = layout_of(context, endpoint, longest.block_size)
    except CannotDecideError as error:
        if context.limits.require_computed_kv:
            notes.cannot(error.message, "set long-context.require_computed_kv: false to go by the other rules alone")
        else:
            notes.warnings.append(error.message)
        return
    for seen in answered:
        need = layout.need_blocks(seen.length)
        allowed = need * (1 + context.limits.kv_tolerance) + _SPARE_BLOCKS
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
    if longest.peak_blocks < 0.75 * layout.need_blocks(longest.prompt_tokens):
        notes.warnings.append(
            f"only {longest.peak_blocks:.0f} of {layout.need_blocks(longest.prompt_tokens)} computed KV blocks were "
            f"seen at {longest.length} tokens: the gauge was read {longest.readings} times"
        )


def _judge_growth(limits: LongContextLimits, walk: LengthWalk, notes: Notes) -> None:
    answered = [seen for seen in walk.seen if seen.tpots_s]
    if len(answered) < 2:
        return
    first, last = (percentile(seen.tpots_s, 0.5) for seen in (answered[0], answered[-1]))
    if not first or last is None:
        return
    growth = last / first
    notes.measure("tpot-growth", growth, "", {"shortest": answered[0].length, "longest": answered[-1].length})
    if limits.max_tpot_growth is not None and growth > limits.max_tpot_growth:
        notes.find(
            "slow",
            f"a token takes {growth:.1f} times as long at {answered[-1].length} tokens as at {answered[0].length}; "
            f"the limit is {limits.max_tpot_growth:g} (long-context.max_tpot_growth)",
            "look at engine.log for a fallback attention kernel, or state a smaller max_model_len",
        )


def _measure(limits: LongContextLimits, maximum: int, walk: LengthWalk, notes: Notes) -> None:
    answered = [seen for seen in walk.seen if seen.complete]
    parameters: dict[str, Scalar] = {
        "stated_maximum": maximum,
        "prompts_per_length": limits.prompts_per_length,
        "answer_tokens": limits.answer_tokens,
        "seed": limits.seed,
    }
    notes.measure("longest-answered", answered[-1].length if answered else 0, "tokens", parameters)
    for seen in walk.seen:
        _measure_length(seen, notes)


def _measure_length(seen: LengthSeen, notes: Notes) -> None:
    parameters: dict[str, Scalar] = {"length": seen.length, "prompts": len(seen.ttfts_s)}
    notes.measure("ttft-p50", percentile(seen.ttfts_s, 0.5), "s", parameters)
    notes.measure("tpot-p50", percentile(seen.tpots_s, 0.5), "s", parameters)
    notes.measure("kv-blocks-peak", seen.peak_blocks, "blocks", {**parameters, "readings": seen.readings})
