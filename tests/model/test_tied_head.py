"""A stored head and the embedding that config.json ties it to: equal to the last byte, or a problem that says how."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from modelctl.model import tied_head
from modelctl.model.config import parse_config
from modelctl.model.families import FAMILIES
from modelctl.model.safetensors import read_header
from modelctl.model.strict_json import Json
from modelctl.model.tied_head import check_tied_head
from tests.support.models import Tensor, write_safetensors

EMBEDDING: Tensor = ("BF16", (10, 8), np.arange(80, dtype="<u2").tobytes())
TIED: dict[str, Json] = {"architectures": ["LlamaForCausalLM"], "tie_word_embeddings": True}


def found(
    folder: Path, files: dict[str, dict[str, Tensor]], config: dict[str, Json], family: str = "Llama"
) -> list[str]:
    headers = {}
    for name, tensors in files.items():
        write_safetensors(folder / name, tensors)
        headers[name] = read_header(folder / name)
    problems = list(check_tied_head(parse_config(config), FAMILIES.get(family), headers, folder.joinpath))
    assert {item.kind for item in problems} <= {"tied-head"}
    return [item.detail for item in problems]


def both(head: Tensor, name: str = "lm_head.weight") -> dict[str, dict[str, Tensor]]:
    return {"model.safetensors": {"model.embed_tokens.weight": EMBEDDING, name: head}}


def test_the_embedding_again_is_right(tmp_path: Path) -> None:
    assert found(tmp_path, both(EMBEDDING), TIED) == []


@pytest.mark.parametrize("block", [1 << 20, 64])
def test_one_other_element_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(tied_head, "BLOCK_BYTES", block)
    head = bytearray(EMBEDDING[2])
    head[-1] ^= 0x80
    head[40] ^= 1
    [detail] = found(tmp_path, both(("BF16", (10, 8), bytes(head))), TIED)
    assert detail.endswith("it is stored with other numbers: 2 of 80 differ")


def test_across_files(tmp_path: Path) -> None:
    files = {
        "model-00001-of-00002.safetensors": {"model.embed_tokens.weight": EMBEDDING},
        "model-00002-of-00002.safetensors": {"x.weight": EMBEDDING, "lm_head.weight": EMBEDDING},
    }
    assert found(tmp_path, files, TIED) == []
    files["model-00002-of-00002.safetensors"]["lm_head.weight"] = ("BF16", (10, 8), bytes(160))
    assert len(found(tmp_path, files, TIED)) == 1


def test_another_type_is_not_the_same_tensor(tmp_path: Path) -> None:
    [detail] = found(tmp_path, both(("F32", (10, 8), bytes(320))), TIED)
    assert "stored with F32 [10, 8], the embedding with BF16 [10, 8]" in detail


@pytest.mark.parametrize(
    ("config", "family", "head"),
    [
        (TIED | {"tie_word_embeddings": False}, "Llama", "lm_head.weight"),
        ({"architectures": ["LlamaForCausalLM"]}, "Llama", "lm_head.weight"),
        ({"architectures": ["NewForCausalLM"]}, "New", "lm_head.weight"),
        (TIED, "Llama", "lm_head.qweight"),
        (TIED, "Llama", "vision_model.lm_head.weight"),
    ],
    ids=["untied", "untied by default", "unknown", "packed", "another tower"],
)
def test_nothing_to_compare(tmp_path: Path, config: dict[str, Json], family: str, head: str) -> None:
    assert found(tmp_path, both(("BF16", (10, 8), bytes(160)), head), config, family) == []


def test_a_family_that_ties_by_default(tmp_path: Path) -> None:
    assert found(tmp_path, both(("BF16", (10, 8), bytes(160))), {"architectures": ["GemmaForCausalLM"]}, "Gemma")


def test_a_file_that_became_shorter_is_an_error(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "m.safetensors", both(EMBEDDING)["model.safetensors"])
    headers = {"m.safetensors": read_header(tmp_path / "m.safetensors")}
    with (tmp_path / "m.safetensors").open("r+b") as stream:
        stream.truncate(200)
    with pytest.raises(OSError, match="become shorter"):
        list(check_tied_head(parse_config(TIED), None, headers, tmp_path.joinpath))
