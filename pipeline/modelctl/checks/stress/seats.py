"""Whether the engine's flags and its KV pool allow the streams at all: computed before any load."""

from __future__ import annotations

from modelctl.checks.base import CheckContext
from modelctl.checks.stress.limits import LoadLimitsT
from modelctl.checks.stress.session import Notes, api_of, layout_of
from modelctl.errors import CannotDecideError
from modelctl.serving.endpoint import Endpoint
from modelctl.serving.metrics import EngineMetrics


def judge_size(
    context: CheckContext[LoadLimitsT],
    endpoint: Endpoint,
    metrics: EngineMetrics | None,
    notes: Notes,
    *,
    image_tokens: int = 0,
) -> None:
    """Add a finding with the arithmetic when the streams can't all be served; `image_tokens` are those of the picture
    in every prompt.

    Raises `CannotDecideError` when one request is longer than the engine serves.
    """
    limits = context.limits
    length = limits.prompt_tokens + image_tokens + (0 if api_of(context) == "embeddings" else limits.answer_tokens)
    maximum = endpoint.max_model_len or context.serving.max_model_len
    if maximum is not None and length > maximum:
        raise CannotDecideError(
            f"the policy's requests take {length} tokens and the engine serves {maximum}",
            remedy="lower concurrency.prompt_tokens and concurrency.answer_tokens in the policy",
        )
    seats = int(endpoint.flags.get("--max-num-seqs", context.serving.max_num_seqs))
    if seats < limits.streams:
        notes.find(
            "sizing",
            f"max_num_seqs is {seats}, so {limits.streams - seats} of {limits.streams} streams would wait",
            f"set spec.serving.max_num_seqs to {limits.streams} or more in release.yaml",
        )
    if api_of(context) == "embeddings":
        return  # a vector is made in one step: no cache is kept from token to token
    if metrics is None or metrics.kv_blocks is None or metrics.block_size is None:
        notes.warnings.append("the engine does not report its KV pool: whether it holds the streams was only tried")
        return
    try:
        layout = layout_of(context, endpoint, metrics.block_size)
    except CannotDecideError as error:
        notes.warnings.append(f"{error.message}: whether the pool holds the streams was only tried")
        return
    need = layout.need_blocks(length)
    notes.measure("kv-blocks-needed", need * limits.streams, "blocks", {"streams": limits.streams, "length": length})
    notes.measure("kv-blocks-pool", metrics.kv_blocks, "blocks", {"block_bytes": layout.block_bytes})
    if need * limits.streams > metrics.kv_blocks:
        notes.find(
            "sizing",
            f"{limits.streams} streams of {length} tokens need {limits.streams} * {need} = {need * limits.streams} KV "
            f"blocks of {layout.block_bytes} bytes; the engine's pool has {metrics.kv_blocks}, enough for "
            f"{metrics.kv_blocks // need} streams",
            "give the engine more memory or GPUs, an 8-bit KV cache, or promise fewer streams",
        )
