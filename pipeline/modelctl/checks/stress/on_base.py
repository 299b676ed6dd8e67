"""A LoRA adapter is driven on its base: whether it fits that, judged from both files' tensors before an engine starts.

An engine that passes over a module which its base does not have answers as if nothing was, so no load would show it.
"""

from __future__ import annotations

from modelctl.checks.base import CheckContext, LimitsT
from modelctl.checks.stress.session import Notes
from modelctl.serving.adapters import served_adapter, shown


def judge_base(context: CheckContext[LimitsT], notes: Notes) -> bool:
    """Whether an engine may be asked: always, but for an adapter that does not fit its base, which is a finding.

    Raises `CannotDecideError` for an adapter that can't be served by itself.
    """
    base = context.base
    if base is None:
        return True
    adapter = served_adapter(context.served, base.tree)
    notes.measure("adapter-base", base.description, "", {"digest": base.tree.digest, "rank": adapter.rank})
    named = adapter.named_base
    if named is not None and base.repo_id is not None and named != base.repo_id:
        notes.warnings.append(f"the adapter names {named[:120]!a} as its base and is served on {base.repo_id}")
    misfits = adapter.misfits()
    if misfits:
        notes.find(
            "adapter-base",
            f"the adapter does not fit its base ({base.description}): {shown(misfits)}",
            "name the model that it was trained on as spec.base",
        )
    return not misfits
