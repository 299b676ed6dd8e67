"""What decides about a quantisation, and the words of a refusal."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from modelctl.accuracy.answers import Document, TextScore
from modelctl.accuracy.evaluate import Results
from modelctl.accuracy.pairing import evidence_lines, pair
from modelctl.accuracy.precision import Precision
from modelctl.checks.base import Observation
from modelctl.checks.limits import QuantizationLimits
from modelctl.checks.quantization import EVIDENCE
from modelctl.checks.quantization_verdict import observe
from modelctl.errors import CannotDecideError
from modelctl.model.release import Quantization

LIMITS = QuantizationLimits(tasks=("modelctl_easy",), questions=1000)
RECIPE = Quantization(group_size=64, calibration_samples=16)
PRECISION = Precision(dtype="bfloat16", because="the model's own")


def answers(
    right: Sequence[bool],
    *,
    chosen: int | None = None,
    prompt: str = "p",
    digest: str = "sha256:a",
    bits: float = 110,
) -> Results:
    """A model's results; a wrong answer is the place after the right one."""
    documents = tuple(
        Document(
            task="modelctl_easy",
            doc_id=number,
            subject=("capitals", "plurals")[number % 2],
            doc_hash=f"d{number}",
            prompt_hash=f"{prompt}{number}",
            target_hash=f"t{number}",
            choices=4,
            target=number % 4,
            chosen=chosen if chosen is not None else (number + (not correct)) % 4,
            correct=correct,
        )
        for number, correct in enumerate(right)
    )
    return Results(
        tree_digest=digest,
        tasks=("modelctl_easy",),
        questions_digest="sha256:q",
        texts_sha256="t",
        limit=len(right),
        seed=0,
        fewshot=0,
        dtype="bfloat16",
        batch_size=32,
        device="cpu",
        versions={"lm_eval": "0.4.13"},
        documents=documents,
        texts=(
            TextScore(name="english", size_bytes=100, bits=bits),
            TextScore(name="chinese", size_bytes=300, bits=450),
        ),
    )


def compare(baseline: Results, candidate: Results) -> Observation:
    return observe(baseline, candidate, pair(baseline, candidate), LIMITS, RECIPE, PRECISION)


def test_a_refusal_says_by_how_much_from_where_to_where_and_how_to_mend_it() -> None:
    observation = compare(answers([True] * 800 + [False] * 200), answers([False] * 50 + [True] * 750 + [False] * 200))
    (finding,) = observation.findings
    assert finding.rule == "quantization.accuracy-drop"
    assert finding.message == (
        "accuracy on modelctl_easy fell from 0.800 to 0.750, by 5.0 points (n=1000, 95 % interval 3.8 to 6.5, 50 lost, "
        "0 gained); the limit is 1.5 points (quantization.max_drop_points)"
    )
    assert "exclude: [self_attn, down_proj]" in finding.remedy
    assert "group_size: 32" in finding.remedy
    assert observation.undecided == ()


def test_a_small_loss_passes_with_every_parameter_of_the_measurement() -> None:
    observation = compare(answers([True] * 800 + [False] * 200), answers([True] * 798 + [False] * 202))
    assert (observation.findings, observation.undecided, observation.warnings) == ((), (), ())
    drop = observation.measurements[0]
    assert (drop.name, drop.value, drop.unit) == ("accuracy-drop", 0.2, "points")
    for name in ("tasks", "questions", "questions_digest", "seed", "fewshot", "dtype", "group_size", "exclude", "lost"):
        assert name in drop.parameters, name
    assert (drop.parameters["dtype"], drop.parameters["dtype_because"]) == ("bfloat16", "the model's own")
    subjects = {item.parameters["subject"]: item for item in observation.measurements if item.name == "subject-change"}
    assert set(subjects) == {"capitals", "plurals"}
    assert subjects["capitals"].parameters["questions"] == 500


def test_a_drop_below_its_standard_error_decides_nothing_and_says_what_would() -> None:
    observation = compare(answers([True] * 80 + [False] * 20), answers([False] * 2 + [True] * 78 + [False] * 20))
    assert observation.findings == ()
    (undecided,) = observation.undecided
    assert "the limit of 1.5 points lies inside the interval" in undecided.reason
    assert undecided.remedy is not None
    assert "questions would decide" in undecided.remedy
    assert "name more tasks (quantization.tasks); 100 were answered" in undecided.remedy
    assert observation.warnings == ("modelctl_easy holds 100 questions, fewer than the 1000 asked for",)


def test_bits_per_byte_are_measured_and_judged_only_where_the_policy_says_so() -> None:
    right = [True] * 800 + [False] * 200
    pairs = pair(answers(right), answers(right, bits=150))
    seen = observe(answers(right), answers(right, bits=150), pairs, LIMITS, RECIPE, PRECISION)
    figures = {(item.name, item.parameters.get("text")): item for item in seen.measurements}
    rise = figures["bits-per-byte-rise", None]
    assert (rise.value, rise.unit) == (0.1, "bits")
    assert (rise.parameters["baseline"], rise.parameters["candidate"]) == (1.4, 1.5)
    assert (figures["text-change", "english"].value, figures["text-change", "chinese"].value) == (0.4, 0.0)
    assert seen.findings == ()

    strict = LIMITS.model_copy(update={"max_bits_per_byte_rise": 0.05})
    (finding,) = observe(answers(right), answers(right, bits=150), pairs, strict, RECIPE, PRECISION).findings
    assert finding.rule == "quantization.bits-per-byte"
    assert "1.500 bits a byte, 0.100 more than with the original; the limit is 0.05" in finding.message
    assert observe(answers(right), answers(right, bits=120), pairs, strict, RECIPE, PRECISION).findings == ()


def test_two_models_that_only_guess_are_not_equally_good() -> None:
    guessing = answers([number % 4 == 0 for number in range(1000)])
    observation = compare(guessing, guessing)
    assert "guessing would reach too" in observation.undecided[0].reason


def test_a_blind_model_that_always_gives_the_same_letter_decides_nothing() -> None:
    blind = answers([number % 4 == 0 for number in range(1000)], chosen=0)
    observation = compare(blind, blind)
    assert observation.undecided[0].reason.startswith("the original gives choice 0 to 100% of 1000 questions")
    assert observation.undecided[0].remedy is not None
    assert "mmlu_continuation" in observation.undecided[0].remedy


def test_answers_to_different_prompts_are_never_compared() -> None:
    with pytest.raises(CannotDecideError, match="not asked the same questions"):
        pair(answers([True] * 100), answers([True] * 100, prompt="other"))
    with pytest.raises(CannotDecideError, match="not asked the same questions"):
        pair(answers([True] * 100), answers([True] * 99))


def test_the_evidence_holds_both_answers_to_each_document() -> None:
    pairs = pair(answers([True, True]), answers([True, False]))
    rows = [json.loads(line) for line in evidence_lines(pairs).splitlines()]
    assert rows[1]["baseline_correct"] is True
    assert rows[1]["candidate_correct"] is False
    assert (rows[1]["target"], rows[1]["baseline_chosen"], rows[1]["candidate_chosen"]) == (1, 1, 2)
    assert EVIDENCE.endswith(".jsonl")
