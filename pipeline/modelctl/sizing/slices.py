"""Whether a slice of a card is enough, or a larger slice than the one that was meant."""

from __future__ import annotations

from collections.abc import Iterator

from modelctl.sizing.gpus import GPUS, Gpu, slice_of
from modelctl.sizing.plan import Plan, plan_on


def smallest_slice(plan: Plan) -> Plan | None:
    """The demand on the smallest MIG slice of the plan's card that holds it; None when it takes the whole card, or the
    card can't be divided. Of slices with the same memory the one with the least computing, of which most fit a card."""
    if plan.ranks > 1 or not plan.fits:
        return None
    return next((small for small in _on_slices(plan, plan.gpu) if small.fits), None)


def larger_slices(plan: Plan) -> Iterator[Plan]:
    """The demand on the larger slices of the card that the plan's slice is of, and on the whole card at last; nothing
    for what is no slice."""
    card = GPUS.get(plan.gpu.name.partition(":")[0])
    if card is None or card.name == plan.gpu.name:
        return
    for larger in _on_slices(plan, card):
        if larger.gpu.memory_bytes > plan.gpu.memory_bytes:
            yield larger
    yield plan_on(plan.facts, card, plan.demand, ranks=1)


def _on_slices(plan: Plan, card: Gpu) -> Iterator[Plan]:
    slices = [slice_of(card, profile) for profile in sorted(card.mig)]
    for part in sorted(slices, key=lambda each: each.memory_bytes):
        if part.memory_bytes < card.memory_bytes:
            yield plan_on(plan.facts, part, plan.demand, ranks=1)
