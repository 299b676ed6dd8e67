"""The figures of `quantization`: drop and interval, both accuracies, bits per byte, and a line for each subject."""

from __future__ import annotations

from collections.abc import Sequence

from modelctl.accuracy.evaluate import Results
from modelctl.accuracy.pairing import Pair, by_subject
from modelctl.accuracy.precision import Precision
from modelctl.accuracy.statistics import PairedDrop
from modelctl.checks.base import Measurement, Scalar
from modelctl.checks.quantization_making import recipe_parameters
from modelctl.model.release import Quantization


def measurements(
    result: PairedDrop,
    baseline: Results,
    candidate: Results,
    pairs: Sequence[Pair],
    quantization: Quantization | None,
    precision: Precision,
) -> list[Measurement]:
    """Every figure with every parameter that moves it."""
    parameters: dict[str, Scalar] = {
        "tasks": ", ".join(baseline.tasks),
        "questions": result.n,
        "questions_digest": baseline.questions_digest,
        "seed": baseline.seed,
        "fewshot": baseline.fewshot,
        "dtype": precision.dtype,
        "dtype_because": precision.because,
        "batch_size": baseline.batch_size,
        "device": baseline.device,
        **(recipe_parameters(quantization) if quantization is not None else {}),
    }
    interval: dict[str, Scalar] = {
        **parameters,
        "confidence": result.confidence,
        "interval": result.method,
        "lost": result.lost,
        "gained": result.gained,
    }
    points = {
        "accuracy-drop": result.drop_points,
        "accuracy-drop-lower": result.lower_points,
        "accuracy-drop-upper": result.upper_points,
    }
    return [
        *(Measurement(name=name, value=round(v, 3), unit="points", parameters=interval) for name, v in points.items()),
        *_of_models(baseline, candidate, parameters),
        *_of_texts(baseline, candidate),
        *_of_subjects(pairs),
    ]


def _of_models(baseline: Results, candidate: Results, parameters: dict[str, Scalar]) -> list[Measurement]:
    return [
        Measurement(
            name=f"accuracy-{name}",
            value=round(arm.accuracy, 4),
            parameters={**parameters, "tree_digest": arm.tree_digest},
        )
        for name, arm in (("baseline", baseline), ("candidate", candidate))
    ]


def _of_texts(baseline: Results, candidate: Results) -> list[Measurement]:
    """The rise over all texts, then both models' bits for each text."""
    rise: dict[str, Scalar] = {
        "baseline": round(baseline.bits_per_byte, 4),
        "candidate": round(candidate.bits_per_byte, 4),
        "texts_sha256": baseline.texts_sha256,
        "dtype": baseline.dtype,
        "device": baseline.device,
    }
    found = [
        Measurement(
            name="bits-per-byte-rise",
            value=round(candidate.bits_per_byte - baseline.bits_per_byte, 4),
            unit="bits",
            parameters=rise,
        )
    ]
    for before, after in zip(baseline.texts, candidate.texts, strict=True):
        parameters: dict[str, Scalar] = {
            "text": before.name,
            "size_bytes": before.size_bytes,
            "baseline": round(before.bits / before.size_bytes, 4),
            "candidate": round(after.bits / after.size_bytes, 4),
        }
        change = (after.bits - before.bits) / before.size_bytes
        found.append(Measurement(name="text-change", value=round(change, 4), unit="bits", parameters=parameters))
    return found


def _of_subjects(pairs: Sequence[Pair]) -> list[Measurement]:
    found = []
    for subject, items in by_subject(pairs).items():
        change = sum(item.gained for item in items) - sum(item.lost for item in items)
        counts: dict[str, Scalar] = {
            "subject": subject,
            "questions": len(items),
            "baseline_correct": sum(item.baseline.correct for item in items),
            "lost": sum(item.lost for item in items),
            "gained": sum(item.gained for item in items),
        }
        found.append(Measurement(name="subject-change", value=change, unit="documents", parameters=counts))
    return found
