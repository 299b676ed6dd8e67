"""Whether a check was run at least as hard as the policy asks, by what its own figures say they were measured with.

A report's word for its policy is a digest; the figures carry their parameters (streams, seconds, questions), and both
have to agree. A figure that is missing from a check that passed proves nothing and is a reason to refuse.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from modelctl.admission.report import CheckReport
from modelctl.checks.base import CheckLimits, Scalar

LEVELS = ("low", "medium", "high")


@dataclass(frozen=True, kw_only=True)
class Demand:
    """One parameter of a figure, held against a limit of the same name."""

    parameter: str
    sense: Literal["at least", "at most", "exactly"]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """The figure of a check that says how it was run."""

    name: str
    demands: tuple[Demand, ...]


def _demands(**senses: Literal["at least", "at most", "exactly"]) -> tuple[Demand, ...]:
    return tuple(Demand(parameter=name, sense=sense) for name, sense in senses.items())


FIGURES: Mapping[str, Figure] = {
    "code": Figure(name="python-files", demands=_demands(severity="at most", confidence="at most")),
    "quantization": Figure(
        name="accuracy-drop",
        demands=_demands(
            questions="at least",
            confidence="at least",
            tasks="exactly",
            seed="exactly",
            fewshot="exactly",
            dtype="exactly",
            batch_size="exactly",
        ),
    ),
    "long-context": Figure(
        name="longest-answered",
        demands=_demands(prompts_per_length="at least", answer_tokens="at least", seed="exactly"),
    ),
    "concurrency": Figure(
        name="requests",
        demands=_demands(
            streams="at least",
            duration_s="at least",
            prompt_tokens="at least",
            answer_tokens="at least",
            seed="exactly",
        ),
    ),
}
"""The other checks read every byte whatever the policy says, and their limits decide over what they found."""


def weaker(check: CheckReport, limits: CheckLimits) -> Iterator[str]:
    """Why this check does not count under these limits, in words; nothing when it was run as hard as they ask."""
    asked = limits.model_dump(mode="json", by_alias=True)
    if not check.limits:
        yield f"{check.id} does not say which limits it was run under"
    for name in sorted(asked.keys() | check.limits.keys()):
        if check.limits and check.limits.get(name) != asked.get(name):
            yield f"{check.id}.{name} was {_text(check.limits.get(name))}, the policy asks {_text(asked.get(name))}"
    figure = FIGURES.get(check.id)
    if figure is None or check.findings or check.undecided or check.skipped_because is not None:
        return  # it passes nothing, whatever the runner called it
    measured = [item for item in check.measurements if item.name == figure.name]
    if not measured:
        yield f"{check.id} found nothing without the figure '{figure.name}', which says how it was run"
    for item in measured:
        for demand in figure.demands:
            if _excused(check, demand, asked[demand.parameter]):
                continue
            found = item.parameters.get(demand.parameter)
            if not _holds(demand, found, asked[demand.parameter]):
                yield (
                    f"{check.id} was measured with {demand.parameter} {_text(found)}, "
                    f"the policy asks {demand.sense} {_text(asked[demand.parameter])}"
                )


def _excused(check: CheckReport, demand: Demand, asked: Any) -> bool:
    """All questions that the tasks hold were asked, and the report warns that they are fewer; or the policy leaves the
    type of the numbers to the machine."""
    if demand.parameter == "dtype":
        return bool(asked == "auto")
    return demand.parameter == "questions" and any("fewer than the" in warning for warning in check.warnings)


def _holds(demand: Demand, found: Scalar, asked: Any) -> bool:
    if isinstance(asked, list):
        asked = ", ".join(sorted({str(item) for item in asked}))  # as tasks are asked: each once, by name
    if found is None:
        return False
    if demand.sense == "exactly":
        return bool(found == asked)
    if isinstance(asked, str):
        if found not in LEVELS:
            return False
        found, asked = LEVELS.index(str(found)), LEVELS.index(asked)
    if isinstance(found, str):
        return False
    return bool(found >= asked) if demand.sense == "at least" else bool(found <= asked)


def _text(value: object) -> str:
    return "not said" if value is None else json.dumps(value, ensure_ascii=False)
