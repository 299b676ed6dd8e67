"""A team's own rules: CEL expressions over the report (https://cel.dev), by Google's own implementation.

CEL has no loops, no side effects and no way out; its comprehensions share a budget of steps, and the evaluation runs
in an isolated child with a limit of time and memory besides. A rule that can't be evaluated (a key that is not there,
a budget that is used up) has decided nothing, and is not true.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from modelctl import worker
from modelctl.errors import CannotDecideError, InputError
from modelctl.isolation import Sandbox

if TYPE_CHECKING:
    from cel_expr_python.cel import Expression

TIME_LIMIT_S = 30
MEMORY_LIMIT_BYTES = 1 << 30
WORKER = "admission.rules_worker"


class RuleLike(Protocol):
    """What is needed of a rule."""

    @property
    def id(self) -> str:
        """Its name."""

    @property
    def expr(self) -> str:
        """The expression."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a rule says: true or false, or why it could not be evaluated."""

    id: str
    value: bool | None
    problem: str | None = None


def compile_rules(rules: Sequence[RuleLike], *, origin: str) -> dict[str, Expression]:
    """The rules' expressions, checked. Raises `InputError` for one that is no CEL, or can't be true or false, and
    `CannotDecideError` without the library."""
    try:
        from cel_expr_python import cel
    except ImportError as error:
        raise CannotDecideError(
            f"{origin}: the policy has rules, and the library for them is not installed",
            remedy="pip install 'modelctl[rules]'",
        ) from error
    environment = cel.NewEnv(variables={"report": cel.Type.DYN})
    compiled = {}
    for rule in rules:
        try:
            expression = environment.compile(rule.expr)
        except RuntimeError as error:
            raise InputError(
                f"{origin}: rule '{rule.id}': not CEL: {words(error)}", remedy="mend its expr; see https://cel.dev"
            ) from error
        kind = expression.return_type().name()
        if kind not in ("BOOL", "DYN", "bool", "dyn"):
            raise InputError(
                f"{origin}: rule '{rule.id}' gives a {kind.lower()}, wanted true or false", remedy="compare with =="
            )
        compiled[rule.id] = expression
    return compiled


def evaluate(rules: Sequence[RuleLike], report: Mapping[str, Any], sandbox: Sandbox) -> tuple[Answer, ...]:
    """What each rule says of a report, in an isolated child. One that ends the child leaves all undecided."""
    request = {"rules": [{"id": rule.id, "expr": rule.expr} for rule in rules], "report": report}
    try:
        answers = worker.call(
            sandbox, WORKER, request, time_limit_s=TIME_LIMIT_S, memory_limit_bytes=MEMORY_LIMIT_BYTES
        )
    except CannotDecideError as error:
        return tuple(Answer(id=rule.id, value=None, problem=error.message) for rule in rules)
    return tuple(Answer(**answer) for answer in answers)


def words(error: object) -> str:
    """The library's own words, on one line, without its name for the kind of error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.lstrip().startswith("|")]
    text = " ".join(lines) or type(error).__name__
    for prefix in ("INVALID_ARGUMENT: ERROR: <input>:", "INVALID_ARGUMENT: ", "INTERNAL: ", "NOT_FOUND: "):
        text = text.removeprefix(prefix)
    return text
