"""Small model repositories, hostile and benign, made from scratch as bytes: what each is, and the right verdict.

`python -m tests.corpus FOLDER` writes them all, with `corpus.json` beside them. Nothing here is ever loaded or run; the
hostile ones call `true`.
"""

from __future__ import annotations

from functools import cache

from tests.corpus import (
    archives,
    benign_files,
    benign_models,
    disguises,
    frameworks,
    hooks,
    pickle_calls,
    pickle_tricks,
    sources,
    templates,
    tensors,
)
from tests.corpus.base import Input

_PARTS = (
    pickle_calls,
    pickle_tricks,
    archives,
    frameworks,
    disguises,
    sources,
    hooks,
    templates,
    tensors,
    benign_models,
    benign_files,
)


GROUPS = tuple(dict.fromkeys(part.GROUP for part in _PARTS))


@cache
def corpus() -> tuple[Input, ...]:
    """Every input, hostile ones first."""
    return tuple(item for part in _PARTS for item in part.inputs())
