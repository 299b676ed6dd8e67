"""An admission from end to end, as far as it goes without services: order, gate, subjects, what is left behind."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from modelctl.admission.admit import Admission, Request, admit
from modelctl.checks import CHECK_IDS
from modelctl.errors import InputError
from modelctl.isolation import Sandbox
from modelctl.progress import SILENT
from modelctl.settings import load_workspace
from tests.support.engine import fault_engine
from tests.support.gguf import gguf, tensor
from tests.support.models import raw_safetensors, tiny_llama, tiny_lora
from tests.support.progress import Notes

RELEASE: Mapping[str, Any] = {
    "apiVersion": "modelctl.dev/v1",
    "kind": "ModelRelease",
    "metadata": {"name": "tiny", "version": "1.0.0"},
    "spec": {"source": {"folder": "model"}, "policy": "demo"},
}
STATIC = ("integrity", "code", "tokenizer")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    tiny_llama(tmp_path / "model")
    (tmp_path / "modelctl.yaml").write_text("policy: demo\n")
    return tmp_path


def release(root: Path, **spec: object) -> str:
    folder = root / "registry" / "tiny" / "1.0.0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "release.yaml").write_text(json.dumps({**RELEASE, "spec": {**RELEASE["spec"], **spec}}))
    return "tiny@1.0.0"


def adapter(root: Path) -> Path:
    folder = root / "adapter"
    folder.mkdir()
    config = {"peft_type": "LORA", "base_model_name_or_path": "org/base", "r": 8, "target_modules": ["q_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    (folder / "adapter_model.safetensors").write_bytes(raw_safetensors(b"{}"))
    return folder


def rename_architecture(root: Path, name: str, **more: object) -> None:
    config = root / "model" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"architectures": [name]} | more))


def run(root: Path, repo: str, *checks: str, policy: str | None = None) -> Admission:
    workspace = load_workspace(root, environ={})
    return admit(Request(repo=repo, workspace=workspace, checks=checks, policy=policy), SILENT)


def test_a_good_folder_is_admitted_by_the_checks_that_were_asked_for(root: Path) -> None:
    admission = run(root, str(root / "model"), *STATIC)
    report = admission.report
    assert report.verdict == "admitted"
    assert report.partial
    assert report.exit_code == 0
    assert [check.id for check in report.checks] == list(STATIC)
    assert report.model.served_digest == report.model.source_digest == admission.subject.source.tree.digest
    assert report.policy.name == "demo"
    assert report.policy.notice is not None
    assert report.machine.isolation == Sandbox().kind
    assert list((root / ".modelctl" / "tmp").iterdir()) == []
    for check in report.checks:
        assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", item.name) for item in check.measurements), check.id


def test_a_release_is_judged_under_its_own_policy_and_named(root: Path) -> None:
    admission = run(root, release(root), "integrity")
    assert admission.report.model.release == "tiny@1.0.0"
    assert admission.report.model.release_sha256 is not None
    assert admission.evidence_dir == root / ".modelctl" / "evidence" / "tiny" / "1.0.0"
    assert [item.path for item in admission.report.checks[0].evidence] == ["integrity/files-source.json"]


def test_a_model_that_the_gate_refuses_is_never_loaded(root: Path) -> None:
    config = root / "model" / "config.json"
    hooked = json.loads(config.read_text()) | {"auto_map": {"AutoModelForCausalLM": "other/repo--mod.Cls"}}
    config.write_text(json.dumps(hooked))
    checks = tuple(check for check in CHECK_IDS if check != "malware")
    report = run(root, str(root / "model"), *checks).report
    assert report.verdict == "refused"
    assert report.exit_code == 1
    outcomes = {check.id: check.outcome for check in report.checks}
    assert outcomes == {
        "integrity": "passed",
        "code": "failed",
        "tokenizer": "error",
        "quantization": "error",
        "long-context": "error",
        "concurrency": "error",
    }
    for check in report.checks:
        if check.outcome == "error":
            assert "code refused the model" in check.undecided[0].reason


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        ({"group_size": 128}, "does not divide the 64 inputs"),
        ({"group_size": 32, "exclude": ["nosuch"]}, "'nosuch' matches none"),
        ({"group_size": 32, "calibration": {"file": "own.jsonl"}}, r"calibration file own\.jsonl: No such file"),
    ],
)
def test_a_recipe_that_can_not_work_is_an_input_error_before_any_check(
    root: Path, recipe: dict[str, object], words: str
) -> None:
    progress = Notes()
    request = Request(repo=release(root, quantization=recipe), workspace=load_workspace(root, environ={}))
    with pytest.raises(InputError, match=words):
        admit(request, progress)
    assert not any("integrity" in note for note in progress.lines)


def test_weights_that_can_not_be_read_are_integritys_to_name(root: Path) -> None:
    (root / "model" / "model.safetensors").write_bytes(b"no header")
    report = run(root, release(root, quantization={"group_size": 128}), "integrity", "tokenizer").report
    assert [check.outcome for check in report.checks] == ["failed", "error"]


def test_without_isolation_the_policy_decides_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelctl.isolation.detect", lambda: "none")
    report = run(root, str(root / "model"), "integrity").report
    assert report.verdict == "undecided"
    assert any("isolation" in reason for reason in report.reasons)


def test_an_unquantised_release_skips_what_does_not_apply(root: Path) -> None:
    report = run(root, release(root), "integrity", "quantization").report
    assert [check.outcome for check in report.checks] == ["passed", "skipped"]
    assert report.verdict == "admitted"


@pytest.mark.parametrize("check", ["concurrency", "long-context"])
def test_an_adapter_alone_passes_no_check_that_asks_an_engine(root: Path, check: str) -> None:
    report = run(root, str(adapter(root)), check).report
    (found,) = report.checks
    assert found.outcome == "skipped"
    assert found.skipped_because is not None
    assert "lora-adapter (adapter_config.json" in found.skipped_because
    assert report.verdict == "undecided"


def test_an_adapter_is_asked_of_the_engine_that_serves_it_on_its_base(root: Path) -> None:
    tiny_lora(root / "adapter")
    proposed = release(root, source={"folder": "adapter"}, base={"folder": "model"})
    with fault_engine(root, adapters=("ours",)) as engine:
        (root / "modelctl.yaml").write_text(f"policy: demo\nengine: {{endpoint: 'unix:{engine.socket}'}}\n")
        report = run(root, proposed, "long-context").report
    (found,) = report.checks
    assert found.outcome == "passed", found.undecided
    assert {body["model"] for body in engine.requests} == {"ours"}
    base = next(item for item in found.measurements if item.name == "adapter-base")
    assert (base.value, base.parameters["rank"]) == ("folder model", 4)


def test_a_base_that_the_adapter_does_not_fit_is_found_without_an_engine(root: Path) -> None:
    tiny_lora(root / "adapter", hidden=32)
    report = run(root, release(root, source={"folder": "adapter"}, base={"folder": "model"}), "concurrency").report
    assert [finding.rule for finding in report.checks[0].findings] == ["concurrency.adapter-base"]
    assert report.verdict == "refused"


def test_a_base_for_what_is_no_adapter_is_an_input_error(root: Path) -> None:
    with pytest.raises(InputError, match=r"spec\.base is for a LoRA adapter, and the source is none"):
        run(root, release(root, base={"folder": "model"}), "integrity")


def test_the_policy_decides_whether_a_check_may_be_skipped(root: Path) -> None:
    folder = adapter(root)
    strict = run(root, str(folder), "concurrency").report
    assert strict.reasons == ("concurrency was skipped and the policy does not allow that",)
    spec = {"checks": {"concurrency": {"allow_skip": True}}, "isolation": "preferred"}
    policy = {"apiVersion": "modelctl.dev/v1", "kind": "AdmissionPolicy", "metadata": {"name": "lenient"}, "spec": spec}
    (root / "lenient.yaml").write_text(json.dumps(policy))
    lenient = run(root, str(folder), "concurrency", policy=str(root / "lenient.yaml")).report
    assert lenient.verdict == "admitted"


def test_a_recipe_for_a_kind_that_can_not_be_quantised_is_an_input_error(root: Path) -> None:
    rename_architecture(root, "LlamaModel")
    with pytest.raises(InputError, match="only causal language models are quantised and compared; found embedding"):
        run(root, release(root, quantization={"group_size": 32}), "tokenizer", "quantization")


def test_leave_to_skip_what_is_not_quantised_is_none_for_a_quantised_embedding_model(root: Path) -> None:
    rename_architecture(root, "LlamaModel", quantization_config={"quant_method": "gptq", "bits": 4})
    report = run(root, str(root / "model"), "quantization").report
    assert [check.outcome for check in report.checks] == ["error"]
    assert "found embedding" in report.checks[0].undecided[0].reason
    rename_architecture(root, "LlamaModel", quantization_config=None)
    assert [check.outcome for check in run(root, str(root / "model"), "quantization").report.checks] == ["skipped"]


def test_a_gguf_file_alone_is_neither_asked_for_text_nor_taken_for_unquantised(root: Path) -> None:
    folder = root / "gguf"
    folder.mkdir()
    (folder / "model.gguf").write_bytes(gguf([], [tensor("a", (8,), 0, 0)], bytes(32)))
    report = run(root, str(folder), "tokenizer", "quantization", "concurrency").report
    assert [check.outcome for check in report.checks] == ["skipped", "error", "skipped"]


def test_the_progress_names_the_kind(root: Path) -> None:
    class Notes:
        def __init__(self) -> None:
            self.notes: list[str] = []
            self.task = SILENT.task

        def note(self, message: str) -> None:
            self.notes.append(message)

    notes = Notes()
    workspace = load_workspace(root, environ={})
    admit(Request(repo=str(root / "model"), workspace=workspace, checks=("code",)), notes)
    assert "kind: causal-lm (config.json: architecture LlamaForCausalLM)" in notes.notes


def test_the_production_policy_is_built_in_and_strict(root: Path) -> None:
    report = run(root, str(root / "model"), "integrity", "quantization", policy="production").report
    assert report.policy.name == "production"
    assert report.policy.notice is None


def test_an_evidence_folder_that_is_a_file(root: Path) -> None:
    (root / "taken").write_text("")
    request = Request(repo=str(root / "model"), workspace=load_workspace(root, environ={}), evidence_dir=root / "taken")
    with pytest.raises(InputError, match="not a folder"):
        admit(request, SILENT)


def test_a_whole_admission_has_the_policys_own_findings(root: Path) -> None:
    (root / "modelctl.yaml").write_text("policy: ours\nclamd: 127.0.0.1:1\n")
    (root / "policies").mkdir()
    (root / "policies" / "ours.yaml").write_text(
        "apiVersion: modelctl.dev/v1\nkind: AdmissionPolicy\nmetadata: {name: ours}\n"
        "spec: {extends: demo, licenses: [mit], sources: [hub], rules: [{id: no, expr: 'false', message: m}]}\n"
    )
    (root / "model" / "README.md").write_text("---\nlicense: gpl-3.0\n---\n")
    rename_architecture(root, "LlamaForCausalLM", auto_map={"AutoModelForCausalLM": "other/repo--mod.Cls"})
    report = run(root, release(root, license="apache-2.0", policy="ours")).report
    assert [check.id for check in report.checks] == [*CHECK_IDS, "policy"]
    assert not report.partial
    assert [finding.rule for finding in report.checks[-1].findings] == [
        "policy.source", "policy.license-differs", "policy.license", "policy.rule-no",
    ]  # fmt: skip
    assert report.verdict == "refused"
    assert report.reasons[-1] == "policy: 4 findings"
    assert report.checks[0].limits["formats"] == ["safetensors"]
    assert report.policy.place == "policies/ours.yaml"
