"""The seven admission checks. This list is the only registration: one id is the command-line word, the policy key
and the module."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from modelctl.checks.base import Check

CHECK_IDS = ("integrity", "malware", "code", "tokenizer", "quantization", "long-context", "concurrency")
"""In the order they run: what reads bytes first, what loads the model last."""

LOADING_GATE = ("integrity", "malware", "code")
"""A model with findings of these is not loaded: the other checks then say that they were not run."""

RELEASE_CHECKS = ("quantization", "long-context", "concurrency")
"""Those that judge a release as a whole (`Check.scope`), the others each of its trees. Known without loading them."""


def load_check(check_id: str) -> Check[Any]:
    """The check of an id. Raises `KeyError` for an unknown one."""
    if check_id not in CHECK_IDS:
        raise KeyError(check_id)
    check: Check[Any] = importlib.import_module(f"modelctl.checks.{check_id.replace('-', '_')}").CHECK
    return check
