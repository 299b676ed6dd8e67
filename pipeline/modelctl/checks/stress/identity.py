"""Reports what the engine really is, and what it does not say."""

from __future__ import annotations

from modelctl.checks.base import Scalar
from modelctl.checks.stress.session import Notes
from modelctl.serving.identity import EngineIdentity


def measure_identity(found: EngineIdentity, notes: Notes, *, gpu: bool) -> None:
    """Add what was read as measurements; what was not as a warning. `gpu`: the engine is known to run on one."""
    pool: dict[str, Scalar] = {"block_size": found.kv_block_size, "tokens": found.kv_tokens, "dtype": found.kv_dtype}
    notes.measure("engine-max-model-len", found.max_model_len, "tokens", {})
    notes.measure("engine-kv-pool", found.kv_blocks, "blocks", pool)
    notes.measure("engine-attention-backend", found.attention_backend, "", {})
    notes.measure(
        "engine-dtype",
        found.dtype,
        "",
        {"quantization": found.quantization, "device": found.device, "compiled": found.compiled},
    )
    if found.unread:
        notes.warnings.append(f"the engine does not say {', '.join(found.unread)}: not part of this report")
    if (gpu or found.device == "cuda") and found.flash_attention is False:
        notes.warnings.append(
            f"attention runs on {found.attention_backend} and not on FlashAttention: it may be slower than need be"
        )
