"""The reasons for which a file is refused by `malware`, whatever looked at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Rule = Literal[
    "signature", "pickle-import", "pickle-broken", "pickle", "numpy-header", "keras-lambda", "keras-import",
    "keras-unreadable", "torchscript", "tensorflow-graph", "onnx-path", "program", "archive", "archive-ambiguous",
    "archive-path", "archive-bomb",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A reason to refuse. `where` names the members that lead to it: `model.pt!archive/data.pkl`."""

    rule: Rule
    where: str
    detail: str


Reason = tuple[Rule, str]
"""A rule and its detail, of whatever is being looked at."""
