"""Up to the stated maximum length: the engine answers, uses the KV cache that was computed, and has no cliff.

Device memory says nothing of KV use, since an engine allocates its pool at start. So unique prompts of growing length
are sent alone, and the share of the pool in use is read while each is answered. Memory is read beside it: it must not
grow with the length.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar, Literal

from modelctl.checks.base import CheckContext, Coverage, Observation
from modelctl.checks.limits import LongContextLimits
from modelctl.checks.stress.identity import measure_identity
from modelctl.checks.stress.length_verdicts import (
    describe_length,
    judge_growth,
    judge_kv,
    judge_memory,
    judge_preemptions,
    kv_is_readable,
    measure_lengths,
)
from modelctl.checks.stress.lengths import LengthWalk
from modelctl.checks.stress.limits import LengthLimits
from modelctl.checks.stress.on_base import judge_base
from modelctl.checks.stress.over_maximum import judge_over_maximum
from modelctl.checks.stress.session import Notes, api_of, keep_evidence, layout_of, refused, restarted
from modelctl.errors import CannotDecideError
from modelctl.model.config import load_config
from modelctl.serving.client import EngineClient
from modelctl.serving.command import gpu_devices
from modelctl.serving.endpoint import Endpoint
from modelctl.serving.engine import EngineRefusedError
from modelctl.serving.identity import read_identity
from modelctl.serving.memory import MemoryWatch, memory_source
from modelctl.serving.prompts import prompt_maker


class LongContextCheck:
    """The check."""

    id: ClassVar[str] = "long-context"
    decides: ClassVar[str] = "Prompts up to the stated maximum are answered, with the KV cache that was computed."
    scope: ClassVar[Literal["tree", "release"]] = "release"
    headline: ClassVar[tuple[str, ...]] = ("longest-answered", "tpot-growth")

    def run(self, context: CheckContext[LongContextLimits]) -> Observation:
        """Send prompts of growing length. Raises `CannotDecideError` when no engine can be had."""
        notes = Notes(check=self.id)
        if not judge_base(context, notes):
            return notes.unstarted(unit="lengths")
        try:
            endpoint = context.resources.engine()
        except EngineRefusedError as error:
            return refused(context, notes, error, unit="lengths")
        return asyncio.run(_observe(context, endpoint, notes))


CHECK = LongContextCheck()


def stated_maximum(context: CheckContext[LongContextLimits], endpoint: Endpoint) -> int:
    """The longest prompt plus answer that the release promises, in tokens. Raises `CannotDecideError`."""
    stated = context.serving.max_model_len or load_config(context.model).max_position_embeddings
    length = stated or endpoint.max_model_len
    if length is None:
        raise CannotDecideError(
            "neither the release, config.json nor the engine states a maximum length",
            remedy="write spec.serving.max_model_len in release.yaml",
        )
    return length


def lengths_to_try(limits: LengthLimits, maximum: int, *, answer_tokens: int | None = None) -> tuple[int, ...]:
    """The lengths in rising order: those of `fractions` that hold a prompt and an answer, and the maximum."""
    shortest = max(limits.min_length, 2 * (limits.answer_tokens if answer_tokens is None else answer_tokens))
    if maximum < shortest:
        raise CannotDecideError(
            f"the stated maximum of {maximum} tokens is under the shortest length to try, {shortest}",
            remedy="lower long-context.min_length and answer_tokens in the policy",
        )
    return tuple(sorted({min(maximum, max(shortest, int(maximum * share))) for share in limits.fractions} | {maximum}))


async def _observe(context: CheckContext[LongContextLimits], endpoint: Endpoint, notes: Notes) -> Observation:
    limits = context.limits
    maximum = stated_maximum(context, endpoint)
    api = api_of(context)
    answer_tokens = 0 if api == "embeddings" else limits.answer_tokens
    lengths = lengths_to_try(limits, maximum, answer_tokens=answer_tokens)
    limit_s = limits.request_time_limit_s
    async with EngineClient(endpoint, silence_limit_s=limit_s, time_limit_s=limit_s) as client:
        measure_identity(await read_identity(client), notes, gpu=endpoint.managed and bool(gpu_devices()))
        walk = LengthWalk(
            client=client,
            prompts=await prompt_maker(client, seed=limits.seed, api=api),
            notes=notes,
            maximum=maximum,
            answer_tokens=answer_tokens,
            reference_tokens=limits.min_length,
            per_length=limits.prompts_per_length,
            scrape_s=limits.scrape_s,
            cliff_step=limits.cliff_step,
            max_cliff_lengths=limits.max_cliff_lengths,
            api=api,
        )
        total = len(lengths) * limits.prompts_per_length + 1
        with (
            MemoryWatch(memory_source(endpoint)) as memory,
            context.progress.task("long prompts", total=total, unit="requests") as task,
        ):
            whole = await walk.run(
                lengths, task, memory, on_length=lambda seen: context.progress.note(describe_length(seen))
            )
            if whole:
                task.describe(f"over {maximum} tokens")
                await judge_over_maximum(walk)
                task.advance()
    _judge(context, endpoint, walk, notes)
    judge_memory(limits, walk, memory.source.name if memory.source else None, notes)
    measure_lengths(limits, walk, notes)
    keep_evidence(context, endpoint, walk.rows)
    return notes.observation(endpoint, _coverage(lengths, walk))


def _judge(context: CheckContext[LongContextLimits], endpoint: Endpoint, walk: LengthWalk, notes: Notes) -> None:
    judge_growth(context.limits, walk, notes)
    if restarted(walk.before, walk.after):
        notes.find("restarted", "the engine was restarted while it was tested", "see engine.log in the evidence")
    answered = [seen for seen in walk.seen if seen.ttfts_s]
    if not answered:
        return
    judge_preemptions(walk, notes)
    if walk.api == "embeddings":
        notes.warnings.append("KV use was not judged: an embedding model keeps no cache from token to token")
        return
    block_size = answered[-1].block_size
    if not kv_is_readable(answered, notes) or block_size is None:
        return
    try:
        layout = layout_of(context, endpoint, block_size)
    except CannotDecideError as error:
        if context.limits.require_computed_kv:
            notes.cannot(error.message, "set long-context.require_computed_kv: false to go by the other rules alone")
        else:
            notes.warnings.append(error.message)
        return
    judge_kv(context.limits, answered, layout, notes)


def _coverage(lengths: tuple[int, ...], walk: LengthWalk) -> Coverage:
    tried = [seen.length for seen in walk.seen]
    left = [str(length) for length in lengths if length not in tried]
    excluded = (f"{', '.join(left)} tokens: not tried after the failure before",) if left else ()
    return Coverage(unit="lengths", seen=len(tried), total=len(lengths), excluded=excluded)
