"""What two models' answers to the same documents say of a quantisation: little enough lost, too much, or not decided.

A paired non-inferiority test with three answers. A baseline that only guesses, or always gives the same answer, decides
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from modelctl.accuracy.evaluate import Results
from modelctl.accuracy.pairing import Pair
from modelctl.accuracy.precision import Precision
from modelctl.accuracy.statistics import PairedDrop, above_chance, constant_answer, judge
from modelctl.checks.base import Coverage, Finding, Measurement, Observation, Scalar, Undecided
from modelctl.checks.limits import QuantizationLimits
from modelctl.checks.quantization_figures import measurements
from modelctl.model.release import Quantization

ID = "quantization"
_REMEDY = (
    "leave the layers that suffer most as they are (quantization.exclude: [self_attn, down_proj], group_size: 32), or "
    "calibrate with more samples (calibration_samples), or quantise to 8 bits; make sure first that your engine loads "
    "those: vLLM on a CPU and some GPU kernels refuse 8-bit GPTQ"
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
    undecided = why_blind(baseline, limits)
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


def only_original(baseline: Results, why: tuple[Undecided, ...], precision: Precision) -> Observation:
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


def why_blind(baseline: Results, limits: QuantizationLimits) -> tuple[Undecided, ...]:
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
