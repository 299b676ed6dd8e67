"""quantization: what quantising cost, measured on the same documents with both models, and whether that is little
enough.

The baseline is the source when modelctl quantised it, else the release's `baseline`. The verdict is a paired
non-inferiority test with three answers; a baseline that only guesses, or always gives the same answer, decides
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from modelctl.accuracy.estimate import answering_bytes
from modelctl.accuracy.evaluate import Results, evaluate
from modelctl.accuracy.methods import method_of, require_measurable
from modelctl.accuracy.pairing import Pair, evidence_lines, pair
from modelctl.accuracy.precision import Precision, choose
from modelctl.accuracy.questions import prepare
from modelctl.accuracy.statistics import PairedDrop, above_chance, constant_answer, judge
from modelctl.checks.base import (
    CheckContext,
    Coverage,
    Finding,
    Measurement,
    Observation,
    Scalar,
    Undecided,
)
from modelctl.checks.limits import QuantizationLimits
from modelctl.checks.quantization_figures import measurements
from modelctl.checks.quantization_making import of_making
from modelctl.errors import CannotDecideError, DoesNotApplyError
from modelctl.model.config import load_config
from modelctl.model.release import Quantization
from modelctl.model.sources import Snapshot
from modelctl.model.tree import Tree

ID = "quantization"
EVIDENCE = "documents.jsonl"
_REMEDY = (
    "leave the layers that suffer most as they are (quantization.exclude: [self_attn, down_proj], group_size: 32), or "
    "calibrate with more samples (calibration_samples), or quantise to 8 bits; make sure first that your engine loads "
    "those: vLLM on a CPU and some GPU kernels refuse 8-bit GPTQ"
)


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
        blind = _blind(original, limits)
        if blind:  # the other model's answers would not change that, and may take hours
            return _undecided(original, blind, precision)
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


def observe(
    baseline: Results,
    candidate: Results,
    pairs: Sequence[Pair],
    limits: QuantizationLimits,
    quantization: Quantization | None,
    precision: Precision,
) -> Observation:
    """What two sets of answers say."""
    result = judge(
        n=len(pairs),
        lost=sum(item.lost for item in pairs),
        gained=sum(item.gained for item in pairs),
        limit_points=limits.max_drop_points,
        confidence=limits.confidence,
    )
    undecided = _blind(baseline, limits)
    if not undecided and result.verdict == "undecided":
        undecided = (_too_few(result, baseline, limits),)
    fails = not undecided and result.verdict == "fails"
    return Observation(
        coverage=(Coverage(unit="documents", seen=len(pairs), total=len(pairs)),),
        findings=(
            *((_finding(result, baseline, candidate, limits),) if fails else ()),
            *_bits_finding(baseline, candidate, limits),
        ),
        undecided=undecided,
        warnings=_warnings(result, limits),
        measurements=tuple(measurements(result, baseline, candidate, pairs, quantization, precision)),
        tools=dict(baseline.versions),
    )


def _undecided(baseline: Results, why: tuple[Undecided, ...], precision: Precision) -> Observation:
    """What is known when only the original was asked."""
    answered = len(baseline.documents)
    parameters: dict[str, Scalar] = {
        "tasks": ", ".join(baseline.tasks),
        "questions": answered,
        "questions_digest": baseline.questions_digest,
        "seed": baseline.seed,
        "dtype": precision.dtype,
        "dtype_because": precision.because,
        "tree_digest": baseline.tree_digest,
    }
    accuracy = Measurement(name="accuracy-baseline", value=round(baseline.accuracy, 4), parameters=parameters)
    return Observation(
        coverage=(Coverage(unit="documents", seen=answered, total=answered),),
        undecided=why,
        measurements=(accuracy,),
        tools=dict(baseline.versions),
    )


def _blind(baseline: Results, limits: QuantizationLimits) -> tuple[Undecided, ...]:
    """Why the baseline's answers measure nothing, if so."""
    documents = baseline.documents
    correct = sum(document.correct for document in documents)
    remedy = (
        f"choose tasks that the original can answer (quantization.tasks, now {', '.join(limits.tasks)}): "
        "for small models modelctl_easy, for others a continuation form such as mmlu_continuation"
    )
    same = constant_answer([document.chosen for document in documents], [document.target for document in documents])
    if same is not None:
        share = sum(document.chosen == same for document in documents) / len(documents)
        reason = f"the original gives choice {same} to {share:.0%} of {len(documents)} questions, whatever is asked"
        return (Undecided(reason=reason, remedy=remedy),)
    if not above_chance(correct=correct, choices=[document.choices for document in documents]):
        reason = f"the original answers {correct} of {len(documents)} questions, which guessing would reach too"
        return (Undecided(reason=reason, remedy=remedy),)
    return ()


def _warnings(result: PairedDrop, limits: QuantizationLimits) -> tuple[str, ...]:
    if result.n >= limits.questions:
        return ()
    return (f"{', '.join(limits.tasks)} holds {result.n} questions, fewer than the {limits.questions} asked for",)


def _too_few(result: PairedDrop, baseline: Results, limits: QuantizationLimits) -> Undecided:
    more = f"about {result.questions_to_decide} questions would decide (quantization.questions)"
    if result.n < limits.questions:
        more = f"about {result.questions_to_decide} questions would decide: name more tasks (quantization.tasks)"
    return Undecided(
        reason=f"accuracy fell by {_words(result)} on {', '.join(baseline.tasks)}; the limit of "
        f"{limits.max_drop_points:g} points lies inside the interval",
        remedy=f"{more}; {result.n} were answered",
    )


def _words(result: PairedDrop) -> str:
    return (
        f"{result.drop_points:.1f} points (n={result.n}, {result.confidence * 100:g} % interval "
        f"{result.lower_points:.1f} to {result.upper_points:.1f}, {result.lost} lost, {result.gained} gained)"
    )


def _finding(result: PairedDrop, baseline: Results, candidate: Results, limits: QuantizationLimits) -> Finding:
    return Finding(
        rule=f"{ID}.accuracy-drop",
        message=f"accuracy on {', '.join(baseline.tasks)} fell from {baseline.accuracy:.3f} to "
        f"{candidate.accuracy:.3f}, by {_words(result)}; the limit is {limits.max_drop_points:g} points "
        f"({ID}.max_drop_points)",
        remedy=_REMEDY,
    )


def _bits_finding(baseline: Results, candidate: Results, limits: QuantizationLimits) -> tuple[Finding, ...]:
    limit, rise = limits.max_bits_per_byte_rise, candidate.bits_per_byte - baseline.bits_per_byte
    if limit is None or rise <= limit:
        return ()
    message = (
        f"the shipped texts take {candidate.bits_per_byte:.3f} bits a byte, {rise:.3f} more than with the original; "
        f"the limit is {limit:g} ({ID}.max_bits_per_byte_rise)"
    )
    return (Finding(rule=f"{ID}.bits-per-byte", message=message, remedy=_REMEDY),)


CHECK = QuantizationCheck()
