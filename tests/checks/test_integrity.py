"""The integrity check on small real models, whole and broken in every way it must see."""

from __future__ import annotations

import json
import pickle
import re
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from modelctl.checks.base import Observation
from modelctl.checks.integrity import CHECK, IntegrityLimits
from modelctl.checks.integrity_findings import MAX_PER_RULE
from modelctl.model.listing import Upstream, UpstreamFile
from modelctl.model.sources import resolve_source
from modelctl.model.tree import scan_tree
from tests.support.contexts import KeptEvidence, tree_context
from tests.support.gguf import entry, gguf, text
from tests.support.gguf import tensor as gguf_tensor
from tests.support.hub import LocalHub, describe, lfs_pointer
from tests.support.models import (
    Tensor,
    bfloat16,
    llama_tensors,
    raw_safetensors,
    tiny_llama,
    write_json,
    write_safetensors,
    write_weights,
)

COMMIT = "c" * 40
PICKLE = b"\x80\x02cposix\nsystem\nX\x04\x00\x00\x00true\x85R."
"""Built, never loaded."""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_llama(tmp_path / "model")


def listing(folder: Path) -> Upstream:
    """The upstream that has exactly the folder's files."""
    files = {}
    for path in folder.rglob("*"):
        if path.is_file():
            entry = describe(path.relative_to(folder).as_posix(), path.read_bytes())
            lfs = entry.get("lfs")
            files[str(entry["path"])] = UpstreamFile(
                path=str(entry["path"]),
                size_bytes=path.stat().st_size,
                sha256=lfs["oid"] if isinstance(lfs, dict) else None,
                blob_sha1=None if lfs else str(entry["oid"]),
            )
    return Upstream(repo_id="acme/tiny", commit=COMMIT, files=files)


def observe(
    folder: Path, *, upstream: Upstream | None = None, limits: IntegrityLimits | None = None, role: str = "source"
) -> Observation:
    context = tree_context(folder, limits or IntegrityLimits(), scratch=folder.parent / "scratch")
    context = replace(context, source=replace(context.source, upstream=upstream))
    return CHECK.run(replace(context, role="served") if role == "served" else context)


def rules(folder: Path, *, upstream: Upstream | None = None, limits: IntegrityLimits | None = None) -> set[str]:
    found = observe(folder, upstream=upstream, limits=limits)
    assert all(finding.message and finding.remedy for finding in found.findings)
    return {finding.rule.removeprefix("integrity.") for finding in found.findings}


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)


def measured(observation: Observation) -> Mapping[str, object]:
    return {item.name: item.value for item in observation.measurements}


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("tie", [True, False])
def test_a_whole_model_passes_and_is_counted(tmp_path: Path, shards: int, tie: bool) -> None:
    folder = tiny_llama(tmp_path / "model", shards=shards, tie=tie)
    found = observe(folder, upstream=listing(folder))
    assert (found.findings, found.undecided, found.warnings) == ((), (), ())
    assert found.coverage[0].seen == found.coverage[0].total == len(list(folder.iterdir()))
    figures = measured(found)
    assert figures["upstream"] == f"acme/tiny@{COMMIT}"
    assert figures["tensors"] == (20 if tie else 21)
    parameters = figures["parameters"]
    assert isinstance(parameters, int)
    assert figures["tensor-bytes"] == parameters * 2
    assert figures["bytes"] == sum(path.stat().st_size for path in folder.iterdir())


def test_every_file_is_kept_as_evidence(model: Path) -> None:
    context = tree_context(model, IntegrityLimits(), scratch=model.parent / "scratch")
    CHECK.run(context)
    assert isinstance(context.evidence, KeptEvidence)
    rows = json.loads(context.evidence.kept["files-source.json"])
    assert {row["path"]: row["sha256"] for row in rows} == {e.path: e.sha256 for e in context.tree.files}


def test_without_an_upstream_it_says_so_and_can_be_made_to_matter(model: Path) -> None:
    found = observe(model)
    assert (found.findings, found.undecided) == ((), ())
    assert measured(found)["upstream"] == "none"
    assert "no official repository" in found.warnings[0]
    strict = observe(model, limits=IntegrityLimits(require_upstream=True))
    assert [item.remedy is not None for item in strict.undecided] == [True]
    assert observe(model, limits=IntegrityLimits(require_upstream=True), role="served").undecided == ()


# Rows of the table of inputs that a gate must get right.


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "chat_template.jinja"])
def test_one_changed_byte_is_found(model: Path, name: str) -> None:
    upstream = listing(model)
    flip(model / name)
    found = observe(model, upstream=upstream)
    changed = [finding for finding in found.findings if finding.rule == "integrity.upstream-changed"]
    assert [finding.path for finding in changed] == [name]
    assert ("sha256" if name.endswith("safetensors") else "git blob sha1") in changed[0].message


def test_missing_weights_are_found_with_and_without_an_upstream(model: Path) -> None:
    upstream = listing(model)
    (model / "model.safetensors").unlink()
    assert rules(model) == {"no-weights"}
    assert rules(model, upstream=upstream) == {"no-weights", "upstream-missing"}


def test_a_missing_config_is_found(model: Path) -> None:
    (model / "config.json").unlink()
    assert rules(model) == {"no-config"}


@pytest.mark.parametrize("name", [".cache/huggingface/x.py", ".git/x.py", "__pycache__/x.py", "sub/.hidden/x.json"])
def test_stray_folders_are_found_with_and_without_an_upstream(model: Path, name: str) -> None:
    upstream = listing(model)
    (model / name).parent.mkdir(parents=True)
    (model / name).write_text("{}")
    assert rules(model) == {"stray-file"}
    assert rules(model, upstream=upstream) == {"stray-file", "upstream-extra"}


def test_an_extra_file_is_found(model: Path) -> None:
    upstream = listing(model)
    (model / "json.py").write_text("import os\n")
    assert rules(model, upstream=upstream) == {"upstream-extra"}


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_an_lfs_pointer_is_named_with_what_it_stands_for(model: Path, name: str) -> None:
    content = (model / name).read_bytes()
    (model / name).write_bytes(lfs_pointer(content))
    found = next(item for item in observe(model).findings if item.rule == "integrity.lfs-pointer")
    assert found.path == name
    assert f"for {len(content)} bytes with sha256" in found.message
    assert "git lfs pull" in found.remedy


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_web_page_in_place_of_a_file(model: Path, name: str) -> None:
    (model / name).write_text("<!DOCTYPE html><html><body>Sign in</body></html>")
    assert "disguised" in rules(model)


def test_a_link_out_of_the_repository(model: Path, tmp_path: Path) -> None:
    (model / "config.json").rename(tmp_path / "config.json")
    (model / "config.json").symlink_to(tmp_path / "config.json")
    assert rules(model) == {"link-outside", "no-config"}
    found = observe(model)
    assert found.coverage[0].seen == found.coverage[0].total - 1


@pytest.mark.parametrize(
    "name", ["model.safetensors", "config.p", "weights.PKL", "notes.txt", "generation_config.json"]
)
@pytest.mark.parametrize("content", [PICKLE, pickle.dumps({"a": 1}, protocol=0), pickle.dumps({"a": 1}, protocol=4)])
def test_a_pickle_under_any_name(model: Path, name: str, content: bytes) -> None:
    (model / name).write_bytes(content)
    assert "format" in rules(model)


def test_a_torch_zip_whatever_its_checksum(model: Path) -> None:
    with zipfile.ZipFile(model / "pytorch_model.bin", "w") as target:
        target.writestr("archive/data.pkl", PICKLE)
    whole = (model / "pytorch_model.bin").read_bytes()
    assert rules(model) == {"format"}
    (model / "pytorch_model.bin").write_bytes(whole.replace(PICKLE, PICKLE[:-1] + b"!"))
    assert rules(model) == {"format"}


@pytest.mark.parametrize("name", ["pytorch_model.bin", "tf_model.h5", "model.onnx", "model.PT", "flax_model.msgpack"])
def test_other_weight_formats_by_name(model: Path, name: str) -> None:
    (model / name).write_bytes(b"\x01\x02\0\x03")
    assert rules(model) == {"format"}


def test_only_allowed_formats(model: Path) -> None:
    assert rules(model, limits=IntegrityLimits(formats=("gguf",))) == {"format"}


def test_a_policy_may_allow_pickles_which_are_hashed_and_never_loaded(model: Path) -> None:
    (model / "model.safetensors").unlink()
    with zipfile.ZipFile(model / "pytorch_model.bin", "w") as target:
        target.writestr("archive/data.pkl", PICKLE)
    assert rules(model) == {"format", "no-weights"}
    allowed = IntegrityLimits(formats=("safetensors", "pytorch"))
    seen = observe(model, limits=allowed)
    assert seen.findings == ()
    assert any("pickles are never loaded" in sentence for item in seen.coverage for sentence in item.excluded)
    (model / "pytorch_model.bin").rename(model / "config.p")
    assert rules(model, limits=allowed) == {"format", "no-weights"}, "a name that torch.save would not give"


LLAMA = [entry("general.architecture", 8, text("llama"))]


def test_gguf_is_judged_by_its_structure(model: Path) -> None:
    (model / "model.gguf").write_bytes(gguf(LLAMA))
    found = observe(model)
    assert (found.findings, found.undecided) == ((), ())
    assert measured(found)["kind"] == "causal-lm + gguf"
    assert rules(model, limits=IntegrityLimits(formats=("safetensors",))) == {"format"}
    (model / "model.gguf").write_bytes(gguf(LLAMA, counts=(1 << 60, 1)))
    assert rules(model) == {"gguf"}


def test_a_split_gguf_is_held_together(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    split = [entry("split.no", 2, b"\0\0"), entry("split.count", 2, b"\2\0")]
    (folder / "m-00001-of-00002.gguf").write_bytes(gguf([*LLAMA, *split]))
    assert [(item.rule, item.path) for item in observe(folder).findings] == [
        ("integrity.gguf-missing-part", "m-00001-of-00002.gguf")
    ]


def test_a_gguf_alone_needs_no_config(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.gguf").write_bytes(gguf(LLAMA))
    found = observe(folder)
    assert found.findings == ()
    assert measured(found)["kind"] == "gguf"


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (raw_safetensors(b"{}", length=1 << 62), "length"),
        (raw_safetensors(b"{}", length=100_000_001), "length"),
        (b"\0" * 64, "json"),
        (b"", "length"),
        (raw_safetensors(b'{"t":{"dtype":"BF16","shape":[1000],"data_offsets":[0,8]}}', b"\0" * 8), "size"),
        (raw_safetensors(b'{"__metadata__":{"format":1}}'), "metadata"),
    ],
)
def test_a_malformed_safetensors_file(model: Path, content: bytes, kind: str) -> None:
    (model / "model.safetensors").write_bytes(content)
    found = [item.message for item in observe(model).findings if item.rule == "integrity.safetensors"]
    assert found
    assert found[0].startswith(f"{kind}: ")


def test_a_cut_download_is_found_without_an_upstream(model: Path) -> None:
    path = model / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    assert rules(model) == {"safetensors"}


def test_an_empty_tensor_is_fine(model: Path, tmp_path: Path) -> None:
    empty: dict[str, Tensor] = {"model.nothing": ("BF16", (0,), b"")}
    write_safetensors(model / "extra.safetensors", empty)
    assert rules(model) == set()


def test_a_shard_that_is_missing_or_elsewhere(tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "model", shards=2)
    index = folder / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    content["weight_map"]["model.norm.weight"] = "../other/model.safetensors"
    write_json(index, content)
    assert "index-path-traversal" in rules(folder)
    (folder / "model-00002-of-00002.safetensors").unlink()
    assert "index-missing-shard" in rules(folder)


# Weights against config.json.


def edit_config(folder: Path, **keys: object) -> None:
    path = folder / "config.json"
    write_json(path, {**json.loads(path.read_text()), **keys})


@pytest.mark.parametrize(
    ("keys", "rule"),
    [
        ({"dtype": "float16"}, "dtype"),
        ({"dtype": "float99"}, "dtype"),
        ({"vocab_size": 321}, "embedding-rows"),
        ({"num_hidden_layers": 3}, "layers"),
        ({"num_hidden_layers": "two"}, "config"),
    ],
)
def test_a_config_that_the_weights_contradict(model: Path, keys: dict[str, object], rule: str) -> None:
    edit_config(model, **keys)
    assert rules(model) == {rule}


OTHER = ["OtherForCausalLM"]
"""An architecture whose tensors are not known."""


def test_small_float32_parts_are_no_contradiction(model: Path) -> None:
    edit_config(model, architectures=OTHER)
    router: dict[str, Tensor] = {
        "model.layers.0.mlp.gate.bias": ("F32", (64,), b"\0" * 256),
        "model.layers.0.mlp.gate.weight": ("F32", (2, 4), bytes(range(32))),
    }
    write_safetensors(model / "router.safetensors", router)
    assert rules(model) == set()


def test_a_half_converted_model_is_a_contradiction(model: Path) -> None:
    edit_config(model, architectures=OTHER)
    large: dict[str, Tensor] = {"model.layers.0.other.weight": ("F32", (64, 64), bytes(range(64)) * 64 * 4)}
    write_safetensors(model / "other.safetensors", large)
    assert rules(model) == {"dtype"}


def gptq(folder: Path, *, zeros: bool = False) -> None:
    """Replace one projection (128 outputs, 64 inputs) by what GPTQ stores for it: 4 bit, group size 32."""
    tensors = llama_tensors(
        vocab=320, layers=2, hidden=64, heads=4, kv_heads=2, intermediate=128, tie=True, seed=0
    )  # fmt: skip
    del tensors["model.layers.0.mlp.up_proj.weight"]
    words = b"\0" * 4096 if zeros else bytes(range(256)) * 16
    tensors |= {
        "model.layers.0.mlp.up_proj.qweight": ("I32", (8, 128), words),
        "model.layers.0.mlp.up_proj.qzeros": ("I32", (2, 16), b"\x77" * 2 * 16 * 4),
        "model.layers.0.mlp.up_proj.scales": ("F16", (2, 128), b"\x01\x20" * 2 * 128),
        "model.layers.0.mlp.up_proj.g_idx": ("I32", (64,), b"\0" * 64 * 4),
    }
    write_weights(folder, tensors)


def test_gptq_weights_pass_when_config_declares_them(model: Path) -> None:
    parameters = measured(observe(model))["parameters"]
    gptq(model)
    assert rules(model) == {"undeclared-quantization"}
    edit_config(model, quantization_config={"quant_method": "gptq", "bits": 4, "group_size": 32})
    found = observe(model)
    assert (found.findings, found.warnings[1:]) == ((), ())
    assert measured(found)["parameters"] == parameters


@pytest.mark.parametrize("setting", [{"bits": 8, "group_size": 32}, {"bits": 4, "group_size": 64}])
def test_packed_shapes_follow_the_declared_bits_and_groups(model: Path, setting: dict[str, int]) -> None:
    gptq(model)
    edit_config(model, quantization_config={"quant_method": "gptq", **setting})
    assert rules(model) == {"tensor-shape"}
    edit_config(
        model, quantization_config={"quant_method": "gptq", **setting, "dynamic": {"x": {"bits": 4, "group_size": 32}}}
    )
    assert rules(model) == set()


def test_packed_words_of_zeros_are_no_weights(model: Path) -> None:
    gptq(model, zeros=True)
    edit_config(model, quantization_config={"quant_method": "gptq", "bits": 4, "group_size": 32})
    assert rules(model) == {"all-zero"}


def test_buffers_of_whole_numbers_are_no_quantization(model: Path) -> None:
    edit_config(model, architectures=OTHER)
    buffers: dict[str, Tensor] = {
        "model.position_ids": ("I64", (1, 8), b"\0" * 64),
        "model.layers.0.attn.mask": ("U8", (1, 8), b"\0" * 8),
    }
    write_safetensors(model / "buffers.safetensors", buffers)
    assert rules(model) == set()


def test_embeddings_of_another_tower_are_not_compared(model: Path) -> None:
    edit_config(model, architectures=OTHER)
    tower: dict[str, Tensor] = {"vision_tower.embed_tokens.weight": ("BF16", (8, 4), bfloat16(np.eye(8, 4)))}
    write_safetensors(model / "vision.safetensors", tower)
    assert rules(model) == set()


# Tensors against the architecture, and the numbers in them.


def change(folder: Path, name: str, tensor: Tensor | None) -> None:
    """Replace one tensor of the model, or take it out."""
    tensors = llama_tensors(vocab=320, layers=2, hidden=64, heads=4, kv_heads=2, intermediate=128, tie=True, seed=0)
    tensors.pop(name, None)
    write_weights(folder, tensors | ({name: tensor} if tensor is not None else {}))


UP = "model.layers.1.mlp.up_proj.weight"


def test_a_whole_model_says_its_kind_and_that_nothing_is_ignored(model: Path) -> None:
    found = observe(model)
    figures = measured(found)
    assert (figures["kind"], figures["ignored"]) == ("causal-lm", "none")
    assert [(item.unit, item.seen, item.total) for item in found.coverage] == [("files", 6, 6), ("tensors", 20, 20)]


@pytest.mark.parametrize(
    ("name", "tensor", "rule"),
    [
        (UP, None, "tensor-missing"),
        (UP, ("BF16", (64, 128), bfloat16(np.eye(64, 128))), "tensor-shape"),
        ("model.layers.1.mlp.spy.weight", ("BF16", (64, 128), bfloat16(np.eye(64, 128))), "tensor-extra"),
        ("model.layers.2.mlp.up_proj.weight", ("BF16", (128, 64), bfloat16(np.eye(128, 64))), "tensor-extra"),
        (UP, ("BF16", (128, 64), bfloat16(np.zeros((128, 64)))), "all-zero"),
        (UP, ("BF16", (128, 64), bfloat16(np.full((128, 64), 0.5))), "constant"),
        (UP, ("BF16", (128, 64), bfloat16(np.where(np.eye(128, 64) > 0, np.nan, 1))), "nan"),
        (UP, ("BF16", (128, 64), bfloat16(np.where(np.eye(128, 64) > 0, -np.inf, 1))), "inf"),
        ("model.norm.weight", ("BF16", (64,), bfloat16(np.zeros(64))), "all-zero"),
    ],
)
def test_a_tensor_that_can_not_be_the_models(model: Path, name: str, tensor: Tensor | None, rule: str) -> None:
    change(model, name, tensor)
    assert rules(model) == {rule}


def test_a_policy_may_name_the_types_of_weights(model: Path) -> None:
    assert rules(model, limits=IntegrityLimits(dtypes=("BF16", "F16"))) == set()
    found = observe(model, limits=IntegrityLimits(dtypes=("F16",))).findings
    assert [(item.rule, item.path) for item in found] == [("integrity.dtype", "model.safetensors")]
    assert "15 matrices are BF16" in found[0].message


def test_numbers_in_gguf_are_read_plain_and_packed(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    plain = bfloat16(np.where(np.eye(32) > 0, np.nan, 1))
    described = [
        gguf_tensor("blk.0.attn_q.weight", [32, 32], 30, 0),
        gguf_tensor("blk.0.attn_k.weight", [32, 2], 2, 2048),
    ]
    packed = b"\0\x7e" + b"\1" * 16 + b"\0\x3c" + b"\2" * 16
    (folder / "model.gguf").write_bytes(gguf(LLAMA, described, plain + packed + bytes(28)))
    found = observe(folder)
    assert [item.rule for item in found.findings] == ["integrity.nan", "integrity.nan"]
    assert "attn_k.weight': 1 of 2 block scales are NaN" in found.findings[1].message
    assert [(item.seen, item.total) for item in found.coverage] == [(1, 1), (2, 2)]


@pytest.mark.parametrize("shards", [1, 2])
def test_a_stored_head_is_the_embedding_that_it_is_tied_to(tmp_path: Path, shards: int) -> None:
    folder = tiny_llama(tmp_path / "model", tie=False, shards=shards)
    write_json(folder / "config.json", json.loads((folder / "config.json").read_text()) | {"tie_word_embeddings": True})
    [item] = observe(folder).findings
    assert item.rule == "integrity.tied-head"
    assert re.search(r"other numbers: \d+ of 20480 differ", item.message)
    write_json(
        folder / "config.json", json.loads((folder / "config.json").read_text()) | {"tie_word_embeddings": False}
    )
    assert rules(folder) == set()


def test_a_policy_may_name_constant_tensors_or_leave_the_numbers_out(model: Path) -> None:
    change(model, UP, ("BF16", (128, 64), bfloat16(np.zeros((128, 64)))))
    assert rules(model, limits=IntegrityLimits(may_be_constant=("*.up_proj.weight",))) == set()
    found = observe(model, limits=IntegrityLimits(numbers=False))
    assert (found.findings, found.coverage[1].seen, found.coverage[1].total) == ((), 0, 20)
    assert "integrity.numbers" in found.coverage[1].excluded[0]


def test_an_unknown_architecture_is_a_warning(model: Path) -> None:
    edit_config(model, architectures=OTHER)
    found = observe(model)
    assert found.findings == ()
    assert "OtherForCausalLM is not known: names and shapes were not compared" in found.warnings[1]


def test_an_adapter_needs_no_config_of_a_model(tmp_path: Path) -> None:
    folder = tmp_path / "adapter"
    folder.mkdir()
    write_json(folder / "adapter_config.json", {"peft_type": "LORA", "r": 4, "base_model_name_or_path": "acme/tiny"})
    module = "base_model.model.model.layers.0.self_attn.q_proj"
    pair: dict[str, Tensor] = {
        f"{module}.lora_A.weight": ("BF16", (4, 64), bfloat16(np.eye(4, 64))),
        f"{module}.lora_B.weight": ("BF16", (64, 4), bfloat16(np.eye(64, 4))),
    }
    write_safetensors(folder / "adapter_model.safetensors", pair)
    found = observe(folder)
    assert found.findings == ()
    kind = next(item for item in found.measurements if item.name == "kind")
    assert (kind.value, kind.parameters["base"]) == ("lora-adapter", "acme/tiny")


# The extent of a repository.


def test_a_sparse_giant(model: Path) -> None:
    with (model / "notes.dat").open("wb") as stream:
        stream.write(b"notes")
        stream.truncate(3 << 20)
    assert rules(model) == {"sparse"}
    (model / "notes.dat").write_bytes(b"\0" * (3 << 20))
    assert rules(model) == set()


def test_more_files_or_bytes_than_the_policy_allows(model: Path) -> None:
    assert rules(model, limits=IntegrityLimits(max_files=5)) == {"too-many-files"}
    assert rules(model, limits=IntegrityLimits(max_bytes=1000)) == {"too-large"}


def test_many_findings_of_one_rule_are_counted(model: Path) -> None:
    upstream = listing(model)
    for number in range(MAX_PER_RULE + 15):
        (model / f"extra{number}.txt").write_text("x")
    found = observe(model, upstream=upstream).findings
    assert len(found) == MAX_PER_RULE + 1
    assert found[-1].message == "15 more findings of this rule"


def test_a_tree_that_changes_meanwhile_decides_nothing(model: Path) -> None:
    from modelctl.errors import CannotDecideError

    context = tree_context(model, IntegrityLimits(), scratch=model.parent / "scratch")
    (model / "tokenizer.json").unlink()
    with pytest.raises(CannotDecideError, match="No such file"):
        CHECK.run(context)


def test_a_model_from_the_hub_passes_as_it_arrives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny_llama(tmp_path / "model", shards=2)
    with LocalHub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        hub.push(
            "acme/tiny", {path.name: path.read_bytes() for path in folder.iterdir()} | {".gitattributes": b"* -text\n"}
        )
        snapshot = resolve_source("acme/tiny", base=tmp_path, store=tmp_path / "store")
    assert rules(snapshot.tree.root, upstream=snapshot.upstream) == set()


def test_a_cache_snapshot_passes_as_the_plain_folder_does(model: Path, tmp_path: Path) -> None:
    repository = tmp_path / "models--acme--tiny"
    snapshot = repository / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    shutil.move(model, repository / "blobs")
    for path in (repository / "blobs").iterdir():
        (snapshot / path.name).symlink_to(f"../../blobs/{path.name}")
    found = resolve_source(str(snapshot), base=tmp_path, store=tmp_path / "store")
    context = tree_context(repository / "blobs", IntegrityLimits(), scratch=tmp_path / "scratch")
    observation = CHECK.run(replace(context, tree=found.tree, source=found))
    assert observation.findings == ()
    assert found.tree.digest == scan_tree(repository / "blobs").digest


def test_the_check_keeps_to_its_protocol() -> None:
    assert (CHECK.id, CHECK.scope) == ("integrity", "tree")
    assert CHECK.decides


def test_a_policy_may_demand_a_pinned_commit_and_a_known_owner(model: Path, tmp_path: Path) -> None:
    limits = IntegrityLimits(require_pinned=True, owners=("acme",))
    context = tree_context(model, limits, scratch=tmp_path / "scratch")
    source = replace(context.source, kind="hub", repo_id="other/tiny", asked_revision="main", commit=COMMIT)
    seen = CHECK.run(replace(context, source=source))
    assert {item.rule for item in seen.findings} == {"integrity.unpinned", "integrity.owner"}
    pinned = replace(source, repo_id="acme/tiny", asked_revision=COMMIT)
    assert CHECK.run(replace(context, source=pinned)).findings == ()
    assert CHECK.run(replace(context, source=source, role="served")).findings == (), "what we made has no owner"
