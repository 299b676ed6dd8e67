"""The bill of materials of a release: CycloneDX 1.6 (ECMA-424) with a model card, `bom.cdx.json`.

What is in it follows from the admission's report, the served files, the release file and what the model card names;
nothing is asked of anyone and no clock is read, so the same release has the same text: its serial number is derived
from the tree digest, its time is the report's. What is not known is left out.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from modelctl.admission.report import CheckReport, Report
from modelctl.admission.subject_table import subjects
from modelctl.checks.base import Measurement
from modelctl.errors import InputError
from modelctl.model.config import ModelConfig, load_config
from modelctl.model.release import ReleaseSpec, Source
from modelctl.model.tree import Tree
from modelctl.registry.card import Card
from modelctl.registry.licenses import spdx_id
from modelctl.registry.manifest import Served

SCHEMA = "http://cyclonedx.org/schema/bom-1.6.schema.json"
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_ACCURACY = ("accuracy-baseline", "accuracy-candidate")
Values = Mapping[str, Any]


def bill_of_materials(report: Report, spec: ReleaseSpec, tree: Tree, card: Card, served: Served) -> str:
    """The document of an admitted release. `tree`: the served files on this disk, whose config.json is read."""
    try:
        config: ModelConfig | None = load_config(tree)
    except InputError:
        config = None  # GGUF alone has none
    name, _, version = (report.model.release or "").partition("@")
    model = f"pkg:generic/{name}@{version}"
    files = [
        {
            "type": "file",
            "bom-ref": f"file:{number}",
            "name": file.path,
            "hashes": [{"alg": "SHA-256", "content": file.sha256}],
            "properties": [_property("size-bytes", file.size_bytes)],
        }
        for number, file in enumerate(served.files, start=1)
    ]
    document = {
        "$schema": SCHEMA,
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, f"{served.uri}#{served.tree_digest}").urn,
        "version": 1,
        "metadata": {
            "timestamp": report.created_at,
            "tools": {"components": [{"type": "application", "name": "modelctl", "version": report.modelctl_version}]},
            "component": _known(
                {
                    "type": "machine-learning-model",
                    "bom-ref": model,
                    "name": name,
                    "version": version,
                    "description": card.title,
                    "licenses": _licenses(spec, card),
                    "purl": _purl(spec.source) if report.model.source_digest == served.tree_digest else None,
                    "pedigree": _pedigree(report, spec, card, served),
                    "externalReferences": [{"type": "distribution", "url": served.uri}],
                    "modelCard": _model_card(report, card, config),
                    "properties": [
                        _property("served-tree-digest", served.tree_digest),
                        _property("source-tree-digest", report.model.source_digest),
                        _property("source", report.model.source),
                        _property("policy", report.policy.name),
                        _property("policy-digest", report.policy.digest),
                    ],
                    "tags": list(dict.fromkeys(card.tags)),
                }
            ),
        },
        "components": files,
        "dependencies": [{"ref": model, "dependsOn": [file["bom-ref"] for file in files]}],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _model_card(report: Report, card: Card, config: ModelConfig | None) -> Values:
    architectures = config.architectures if config else ()
    parameters = _known(
        {
            "task": card.task,
            "architectureFamily": config.model_type if config else None,
            "modelArchitecture": architectures[0] if architectures else None,
            "datasets": [{"type": "dataset", "name": name} for name in card.datasets],
        }
    )
    metrics = [metric for check in report.checks if check.id == "quantization" for metric in _metrics(check)]
    return _known({"modelParameters": parameters, "quantitativeAnalysis": _known({"performanceMetrics": metrics})})


def _metrics(check: CheckReport) -> Iterator[Values]:
    """Accuracy as it was measured: of both models, what was lost with its interval, and of each subject as served."""
    found = {item.name: item for item in reversed(check.measurements)}
    for name in _ACCURACY:
        if name in found:
            yield _known({"type": name, "value": _number(found[name]), "slice": _tasks(found[name])})
    if "accuracy-drop" in found:
        drop, bounds = found["accuracy-drop"], ("accuracy-drop-lower", "accuracy-drop-upper")
        interval = {
            key: _number(found[name])
            for key, name in zip(("lowerBound", "upperBound"), bounds, strict=True)
            if name in found
        }
        yield _known(
            {
                "type": "accuracy-drop-points",
                "value": _number(drop),
                "slice": _tasks(drop),
                "confidenceInterval": interval,
            }
        )
    for subject in subjects(check):
        right = (subject.baseline_correct + subject.change) / subject.questions
        yield {"type": "accuracy-candidate", "value": f"{right:.4g}", "slice": subject.name}


def _pedigree(report: Report, spec: ReleaseSpec, card: Card, served: Served) -> Values:
    made = report.model.source_digest != served.tree_digest
    sources = [source for source in (spec.source if made else None, spec.baseline, spec.base) if source is not None]
    ancestors = [_ancestor(source) for source in sources if source.hub is not None]
    known = {item["name"] for item in ancestors}
    ancestors += [
        _known(
            {
                "type": "machine-learning-model",
                "name": name,
                "purl": f"pkg:huggingface/{name}" if _HUB_ID.fullmatch(name) else None,
            }
        )
        for name in card.base_models
        if name not in known
    ]
    note = None
    if made and spec.quantization is not None:
        how = spec.quantization
        note = f"quantised before publication: {how.method}, {how.bits} bits, group {how.group_size}"
    return _known({"ancestors": ancestors, "notes": note})


def _ancestor(source: Source) -> Values:
    return _known(
        {
            "type": "machine-learning-model",
            "name": source.hub,
            "version": source.revision,
            "purl": _purl(source),
        }
    )


def _purl(source: Source) -> str | None:
    """The package URL of a Hub repository at its commit (purl-spec, type huggingface)."""
    if source.hub is None:
        return None
    return f"pkg:huggingface/{source.hub}" + (f"@{source.revision}" if source.revision else "")


def _licenses(spec: ReleaseSpec, card: Card) -> Sequence[Values]:
    named = [spec.license] if spec.license else [name for name in card.licenses if name.lower() != "other"]
    return [
        {"license": {**({"id": spdx} if (spdx := spdx_id(name)) else {"name": name}), "acknowledgement": "declared"}}
        for name in named
    ]


def _tasks(item: Measurement) -> str | None:
    tasks = item.parameters.get("tasks")
    return str(tasks) if tasks is not None else None


def _number(item: Measurement) -> str:
    return f"{item.value:g}" if isinstance(item.value, float) else str(item.value)


def _property(name: str, value: object) -> Values:
    return {"name": f"modelctl:{name}", "value": str(value)}


def _known(values: Values) -> dict[str, Any]:
    """Without what is not known."""
    return {key: value for key, value in values.items() if value not in (None, [], {})}
