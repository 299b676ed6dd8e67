"""quantization: what quantising cost, measured on the same documents with both models, and whether that is little
enough.

The baseline is the source when modelctl quantised it, else the release's `baseline`. It answers first: where what it
says measures nothing, the other model is not asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal

from modelctl.accuracy.estimate import answering_bytes
from modelctl.accuracy.evaluate import Results, evaluate
from modelctl.accuracy.methods import method_of, require_measurable
from modelctl.accuracy.pairing import evidence_lines, pair
from modelctl.accuracy.precision import Precision, choose
from modelctl.accuracy.questions import prepare
from modelctl.checks.base import CheckContext, Observation
from modelctl.checks.limits import QuantizationLimits
from modelctl.checks.quantization_making import of_making
from modelctl.checks.quantization_verdict import ID, observe, only_original, why_blind
from modelctl.errors import CannotDecideError, DoesNotApplyError
from modelctl.model.config import load_config
from modelctl.model.sources import Snapshot
from modelctl.model.tree import Tree

EVIDENCE = "documents.jsonl"


class QuantizationCheck:
    """The check."""

    id: ClassVar[str] = ID
    decides: ClassVar[str] = "the quantised model answers as well as the original, within the limit"
    scope: ClassVar[Literal["tree", "release"]] = "release"
    headline: ClassVar[tuple[str, ...]] = ("accuracy-drop", "accuracy-drop-upper")

    def run(self, context: CheckContext[QuantizationLimits]) -> Observation:
        """Answer the same documents with both models and compare.

        Raises `DoesNotApplyError` when nothing is quantised, `CannotDecideError` when there is nothing to compare with.
        """
        baseline = _baseline(context)
        limits = context.limits
        configs = [load_config(tree) for tree in (baseline.tree, context.served)]
        recipes = [config.quantization for config in configs if config.quantization is not None]
        for recipe in recipes:
            require_measurable(recipe)
        precision = choose(limits.dtype, configs[0], recipes)
        for note in _beforehand(precision, answering_bytes(baseline.tree, precision.dtype), limits):
            context.progress.note(note)
        memory_bytes = int(limits.memory_limit_gib * (1 << 30))
        questions = prepare(
            limits.tasks,
            task_folder=_task_folder(context),
            cache=context.cache,
            progress=context.progress,
            time_limit_s=limits.time_limit_s,
            memory_limit_bytes=memory_bytes,
        )

        def answer(tree: Tree, label: str) -> Results:
            return evaluate(
                tree,
                questions,
                limit=limits.questions,
                seed=limits.seed,
                dtype=precision.dtype,
                fewshot=limits.fewshot,
                batch_size=limits.batch_size,
                cache=context.cache,
                sandbox=context.resources.sandbox,
                progress=context.progress,
                label=label,
                time_limit_s=limits.time_limit_s,
                memory_limit_bytes=memory_bytes,
            )

        original = answer(baseline.tree, "answer: original")
        blind = why_blind(original, limits)
        if blind:  # the other model's answers would not change that, and may take hours
            return only_original(original, blind, precision)
        quantised = answer(context.served, "answer: quantised")
        pairs = pair(original, quantised)
        context.evidence.keep(EVIDENCE, evidence_lines(pairs))
        seen = observe(original, quantised, pairs, limits, context.quantization, precision)
        if context.made is None or context.quantization is None:
            return seen
        return seen.plus(of_making(context.made, context.quantization))


def _beforehand(precision: Precision, needed_bytes: int, limits: QuantizationLimits) -> Iterator[str]:
    """What a person who waits is told before anything is loaded."""
    yield f"both models answer in {precision.dtype}: {precision.because}"
    yield f"estimate: {needed_bytes / 1e9:.1f} GB of memory, and what a batch of {limits.batch_size} questions takes"
    if needed_bytes > limits.memory_limit_gib * (1 << 30):
        yield f"that is more memory than the policy's memory_limit_gib allows ({limits.memory_limit_gib:g} GiB)"


def _task_folder(context: CheckContext[QuantizationLimits]) -> Path | None:
    """Where the policy's tasks lie; a link out of the registry repository is not followed."""
    named = context.limits.task_folder
    if named is None:
        return None
    folder = (context.root / named).resolve()
    if not folder.is_relative_to(context.root.resolve()):
        raise CannotDecideError(
            f"task folder {named}: outside of the registry repository",
            remedy="put it into the repository and name it relative to its root (quantization.task_folder)",
        )
    return folder


def _baseline(context: CheckContext[QuantizationLimits]) -> Snapshot:
    if context.quantization is not None:
        return context.source
    recipe = load_config(context.served).quantization
    if context.baseline is not None:
        return context.baseline
    if recipe is None:
        raise DoesNotApplyError("the release is not quantised")
    raise CannotDecideError(
        f"the weights are quantised already ({method_of(recipe)}) and the release names no original",
        remedy="write baseline: {hub: ORG/NAME, revision: COMMIT} under spec in the release file",
    )


CHECK = QuantizationCheck()
