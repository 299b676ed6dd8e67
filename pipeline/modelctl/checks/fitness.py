"""Which kinds of repository a check can judge, and why not the others.

A check that fits none of a repository's kinds is skipped with these words; whether that is enough is the policy's
`allow_skip`. A kind that is unknown fits every check: the check tries, and what it then sees counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

from modelctl.model.kinds import Kind, KindName, is_adapter

EVERY: frozenset[KindName] = frozenset(get_args(KindName))
_GENERATES_TEXT: frozenset[KindName] = frozenset({"causal-lm", "mixture-of-experts", "vision-language", "unknown"})

_SERVED: frozenset[KindName] = frozenset({*_GENERATES_TEXT, "embedding"})

FITS: Mapping[str, frozenset[KindName]] = {
    "integrity": EVERY,
    "malware": EVERY,
    "code": EVERY,
    "tokenizer": EVERY - {"gguf"},
    "quantization": _GENERATES_TEXT - {"vision-language"},
    "long-context": _SERVED,
    "concurrency": _SERVED,
}
"""Check → the kinds of which one is enough: an engine serves the model of config.json, whatever lies beside it."""

ON_BASE = ("long-context", "concurrency")
"""Checks that judge an adapter too, where the release names what it is served on."""
_WHOLE = "this version serves and asks only whole models in safetensors, that write text or make vectors"
_NEEDS: Mapping[str, str] = {
    "tokenizer": "only a tokenizer in files of its own is read, and a GGUF file keeps it inside",
    "quantization": "only causal language models are quantised and compared",
    "long-context": _WHOLE,
    "concurrency": _WHOLE,
}


def does_not_fit(check_id: str, kinds: Sequence[Kind], *, base: Sequence[Kind] | None = None) -> str | None:
    """Why a check can't judge a repository of these kinds, in words; None when it can.

    `base` are the kinds of what an adapter is served on.
    """
    found = "; ".join(f"{kind.name} ({kind.because})" for kind in kinds)
    if check_id in ON_BASE and is_adapter(kinds):
        if base is None:
            return f"an adapter is served on its base, and no release names one (spec.base); found {found}"
        reason = does_not_fit(check_id, base)
        return None if reason is None else f"of the adapter's base: {reason}"
    if any(kind.name in FITS[check_id] for kind in kinds):
        return None
    return f"{_NEEDS[check_id]}; found {found}"
