"""The isolated child that evaluates a policy's rules over a report: see `admission.rules`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from modelctl.admission.rules import compile_rules, words
from modelctl.worker import serve


@dataclass(frozen=True, kw_only=True)
class _Rule:
    id: str
    expr: str


def evaluate(request: Any, _progress: Callable[..., None]) -> list[dict[str, object]]:
    """The answer of every rule."""
    answers: list[dict[str, object]] = []
    for name, expression in compile_rules([_Rule(**rule) for rule in request["rules"]], origin="the policy").items():
        problem = None
        try:
            result = expression.eval(data={"report": request["report"]})
            value = result.plain_value()
        except RuntimeError as error:
            value, problem = None, words(error)
        if problem is None and not isinstance(value, bool):
            failed = result.type().name() == "ERROR"  # a key that is not there comes back as a value
            problem = words(value) if failed else f"gave {str(value)[:80]!r}, wanted true or false"
            value = None
        answers.append({"id": name, "value": value, "problem": problem})
    return answers


if __name__ == "__main__":
    serve(evaluate)
