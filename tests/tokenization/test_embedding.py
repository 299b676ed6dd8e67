from __future__ import annotations

from pathlib import Path

from modelctl.model.config import parse_config
from modelctl.tokenization.embedding import find_ceiling
from modelctl.tokenization.report import Ledger
from tests.support.models import write_safetensors
from tests.tokenization.models import rules

TABLE = ("BF16", (4, 2), bytes(16))


def test_the_table_in_the_weights_is_the_ceiling(tmp_path: Path) -> None:
    other = ("BF16", (9, 2), bytes(36))
    write_safetensors(tmp_path / "m.safetensors", {"model.embed_tokens.weight": TABLE, "model.norm.weight": other})
    ledger = Ledger()
    ceiling = find_ceiling(tmp_path, ["m.safetensors"], parse_config({"vocab_size": 4}), ledger)
    assert ceiling.rows == 4
    assert "model.embed_tokens.weight" in ceiling.origin
    assert rules(ledger) == []


def test_a_vocab_size_that_is_not_the_tables_is_a_finding(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "m.safetensors", {"transformer.wte.weight": TABLE})
    ledger = Ledger()
    find_ceiling(tmp_path, ["m.safetensors"], parse_config({"vocab_size": 5}), ledger)
    assert rules(ledger) == ["vocab-size"]


def test_tables_of_positions_and_images_do_not_count(tmp_path: Path) -> None:
    tables = {
        "model.embed_tokens.weight": TABLE,
        "vision_tower.embeddings.weight": ("BF16", (1, 2), bytes(4)),
        "embeddings.position_embeddings.weight": ("BF16", (2, 2), bytes(8)),
    }
    write_safetensors(tmp_path / "m.safetensors", tables)
    assert find_ceiling(tmp_path, ["m.safetensors"], None, Ledger()).rows == 4


def test_without_weights_the_config_is_taken_and_said_so(tmp_path: Path) -> None:
    ledger = Ledger()
    assert find_ceiling(tmp_path, [], parse_config({"vocab_size": 7}), ledger).rows == 7
    assert ledger.excluded
    assert not ledger.doubts


def test_without_both_it_is_not_known(tmp_path: Path) -> None:
    (tmp_path / "m.safetensors").write_bytes(b"\xff" * 100)
    ledger = Ledger()
    assert find_ceiling(tmp_path, ["m.safetensors"], None, ledger).rows is None
    assert ledger.doubts
