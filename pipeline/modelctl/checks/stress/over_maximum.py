"""One token over the maximum must be refused cleanly, with status 400, and the engine must go on."""

from __future__ import annotations

from modelctl.checks.stress.lengths import LengthWalk

_TEXT_EXCESS = 1.2
"""Without exact token counts a prompt is this many times as long as the maximum."""


async def judge_over_maximum(walk: LengthWalk) -> None:
    """Send a request that is one token too long, then a prompt that alone is, then one that fits."""
    notes, answer_tokens = walk.notes, walk.answer_tokens
    maximum = max(walk.maximum, walk.client.endpoint.max_model_len or 0)
    if walk.prompts.exact and answer_tokens:
        row = (await walk.send(walk.fresh(maximum + 1 - answer_tokens), -1)).row
        total = (row.prompt_tokens or 0) + (row.completion_tokens or 0)
        if row.failure is None and total > maximum:
            notes.find(
                "over-maximum",
                f"a request of {total} tokens, prompt and answer, was answered, though the maximum is {maximum}",
                "start the engine with --max-model-len, so that what is too long is refused",
            )
            return
    asked = maximum + 1 if walk.prompts.exact else int(maximum * _TEXT_EXCESS)
    row = (await walk.send(walk.fresh(asked), -1)).row
    if row.failure is None:
        notes.find(
            "over-maximum",
            f"a prompt of {asked} tokens was answered as if it fitted, though the maximum is {maximum} "
            f"(the engine counted {row.prompt_tokens} prompt tokens)",
            "start the engine with --max-model-len, so that what is too long is refused and not cut",
        )
    elif row.status != 400:
        notes.find(
            "over-maximum",
            f"a prompt of {asked} tokens is not refused cleanly (wanted: HTTP 400): {row.detail}",
            "see engine.log in the evidence",
        )
    fitting = min(walk.reference_tokens, maximum - answer_tokens)
    following = (await walk.send(walk.fresh(fitting), -1)).row
    if following.failure is not None:
        notes.find(
            "engine-died",
            f"after a request that was too long the engine answers no more: {following.detail}",
            "see engine.log in the evidence",
        )
