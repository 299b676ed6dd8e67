"""The bill of materials: valid by the official schema, the same each time, and only what is known."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modelctl.admission.report import Report
from modelctl.checks.base import Measurement
from modelctl.model.release import ReleaseSpec
from modelctl.model.tree import Tree, scan_tree
from modelctl.registry.bom import bill_of_materials
from modelctl.registry.card import extract_card
from modelctl.registry.licenses import _BY_NAME, spdx_id
from modelctl.registry.manifest import Served
from tests.support.reports import a_check, a_report

CARD = """\
---
license: apache-2.0
base_model: [HuggingFaceTB/SmolLM2-135M, "a model of ours"]
datasets: [HuggingFaceTB/smol-smoltalk]
pipeline_tag: text-generation
tags: [chat, chat, small]
---
# Tiny <model>
"""
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
FIGURES = (
    Measurement(name="accuracy-drop", value=-0.5, unit="points", parameters={"tasks": "mmlu, arc_easy"}),
    Measurement(name="accuracy-drop-lower", value=-1.25, unit="points", parameters={}),
    Measurement(name="accuracy-drop-upper", value=0.25, unit="points", parameters={}),
    Measurement(name="accuracy-baseline", value=0.77, parameters={"tasks": "mmlu, arc_easy"}),
    Measurement(name="accuracy-candidate", value=0.775, parameters={"tasks": "mmlu, arc_easy"}),
    Measurement(
        name="subject-change", value=-1, unit="documents",
        parameters={"subject": "anatomy", "questions": 8, "baseline_correct": 6, "lost": 2, "gained": 1},
    ),
)  # fmt: skip
COMMIT = "ab" * 20


def made(folder: Path, *, card: str | None = CARD, spec: dict[str, Any] | None = None, quantised: bool = False) -> str:
    """The document of a release with these files."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "größe 1.safetensors").write_bytes(b"weights")
    if card is not None:
        (folder / "README.md").write_text(card)
    tree = scan_tree(folder)
    return bill_of_materials(
        report(tree, quantised=quantised), ReleaseSpec.model_validate(spec or {"source": {"folder": "model"}}), tree,
        extract_card(tree), Served.of(tree, bucket="models", name="tiny", version="1.0.0"),
    )  # fmt: skip


def report(tree: Tree, *, quantised: bool) -> Report:
    check = replace(a_check("quantization"), measurements=FIGURES)
    found = a_report(a_check(), check, served_digest=tree.digest)
    return found if quantised else replace(found, model=replace(found.model, source_digest=tree.digest))


def component(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)["metadata"]["component"]
    return found


HUB = {"source": {"hub": "HuggingFaceTB/SmolLM2-135M-Instruct", "revision": COMMIT}}
GPTQ = {**HUB, "quantization": {"method": "gptq", "bits": 4, "group_size": 128}, "license": "mit"}
CASES: list[dict[str, Any]] = [
    {},
    {"card": None},
    {"card": "---\nlicense: other\nlicense_name: our-license\n---\n"},
    {"card": "---\nlicense: [broken\n---\n"},
    {"spec": HUB},
    {"spec": GPTQ, "quantised": True},
]


@pytest.mark.parametrize("case", CASES)
def test_the_official_schema_takes_it(tmp_path: Path, case: dict[str, Any]) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(made(tmp_path / "model", **case))
    assert problem is None, str(problem)


def test_the_same_release_has_the_same_text_and_another_another_number(tmp_path: Path) -> None:
    first = made(tmp_path / "a")
    assert made(tmp_path / "b") == first
    (tmp_path / "b" / "more").write_text("x")
    assert json.loads(made(tmp_path / "b"))["serialNumber"] != json.loads(first)["serialNumber"]
    assert json.loads(first)["metadata"]["timestamp"] == "2026-01-02T03:04:06Z"


def test_every_served_file_is_named_with_its_sha256(tmp_path: Path) -> None:
    body = json.loads(made(tmp_path / "model"))
    found = {item["name"]: item["hashes"] for item in body["components"]}
    assert found["größe 1.safetensors"] == [{"alg": "SHA-256", "content": hashlib.sha256(b"weights").hexdigest()}]
    assert set(found) == {"config.json", "größe 1.safetensors", "README.md"}
    (dependency,) = body["dependencies"]
    assert dependency["ref"] == component(made(tmp_path / "model"))["bom-ref"]
    assert sorted(dependency["dependsOn"]) == sorted(item["bom-ref"] for item in body["components"])


def test_the_model_card_holds_task_architecture_data_and_what_was_measured(tmp_path: Path) -> None:
    model = component(made(tmp_path / "model"))
    assert model["type"] == "machine-learning-model"
    assert model["description"] == "Tiny <model>"
    assert model["tags"] == ["chat", "small"]
    assert model["modelCard"]["modelParameters"] == {
        "task": "text-generation",
        "architectureFamily": "llama",
        "modelArchitecture": "LlamaForCausalLM",
        "datasets": [{"type": "dataset", "name": "HuggingFaceTB/smol-smoltalk"}],
    }
    assert model["modelCard"]["quantitativeAnalysis"]["performanceMetrics"] == [
        {"type": "accuracy-baseline", "value": "0.77", "slice": "mmlu, arc_easy"},
        {"type": "accuracy-candidate", "value": "0.775", "slice": "mmlu, arc_easy"},
        {
            "type": "accuracy-drop-points",
            "value": "-0.5",
            "slice": "mmlu, arc_easy",
            "confidenceInterval": {"lowerBound": "-1.25", "upperBound": "0.25"},
        },
        {"type": "accuracy-candidate", "value": "0.625", "slice": "anatomy"},
    ]


class TestPedigree:
    def test_base_models_of_the_card(self, tmp_path: Path) -> None:
        assert component(made(tmp_path / "model"))["pedigree"]["ancestors"] == [
            {
                "type": "machine-learning-model",
                "name": "HuggingFaceTB/SmolLM2-135M",
                "purl": "pkg:huggingface/HuggingFaceTB/SmolLM2-135M",
            },
            {"type": "machine-learning-model", "name": "a model of ours"},
        ]

    def test_what_is_served_as_it_came_from_the_hub_has_its_package_url(self, tmp_path: Path) -> None:
        wanted = f"pkg:huggingface/HuggingFaceTB/SmolLM2-135M-Instruct@{COMMIT}"
        assert component(made(tmp_path / "model", spec=HUB))["purl"] == wanted

    def test_what_was_quantised_descends_from_its_source(self, tmp_path: Path) -> None:
        model = component(made(tmp_path / "model", spec=GPTQ, quantised=True))
        assert "purl" not in model
        assert model["pedigree"]["ancestors"][0]["version"] == COMMIT
        assert model["pedigree"]["notes"] == "quantised before publication: gptq, 4 bits, group 128"


class TestLicences:
    @pytest.mark.parametrize(
        ("card", "wanted"),
        [
            ("apache-2.0", [{"id": "Apache-2.0"}]),
            ("[mit, cc-by-4.0]", [{"id": "MIT"}, {"id": "CC-BY-4.0"}]),
            ("other\nlicense_name: llama3", [{"name": "llama3"}]),
            ("gemma", [{"name": "gemma"}]),
        ],
    )
    def test_spdx_where_there_is_one(self, tmp_path: Path, card: str, wanted: list[dict[str, str]]) -> None:
        found = component(made(tmp_path / "model", card=f"---\nlicense: {card}\n---\n"))["licenses"]
        assert found == [{"license": {**item, "acknowledgement": "declared"}} for item in wanted]

    def test_the_release_file_has_the_word(self, tmp_path: Path) -> None:
        model = component(made(tmp_path / "model", spec=GPTQ, quantised=True))
        assert model["licenses"][0]["license"]["id"] == "MIT"

    def test_nothing_is_made_up(self, tmp_path: Path) -> None:
        model = component(made(tmp_path / "model", card=None))
        assert not {"licenses", "pedigree", "purl", "description", "tags"} & model.keys()
        assert "datasets" not in model["modelCard"]["modelParameters"]

    def test_every_identifier_is_spdxs(self) -> None:
        import cyclonedx.schema

        folder = Path(cyclonedx.schema.__file__).parent / "_res"
        known = set(json.loads((folder / "spdx.SNAPSHOT.schema.json").read_text())["enum"])
        assert set(_BY_NAME.values()) <= known
        assert spdx_id("llama3") is None
