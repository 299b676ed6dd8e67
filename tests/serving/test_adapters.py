"""An adapter and its base, held against each other from their files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from modelctl.checks import long_context
from modelctl.checks.long_context import LongContextLimits
from modelctl.errors import CannotDecideError
from modelctl.model.release import Serving
from modelctl.model.tree import scan_tree
from modelctl.serving.adapters import ServedAdapter, served_adapter
from modelctl.serving.models import choose_adapter
from tests.support.engine import FaultEngine, fault_engine
from tests.support.models import tiny_llama, tiny_lora
from tests.support.stress import measured, observe, reasons, rules


def adapter(tmp_path: Path, **changes: object) -> ServedAdapter:
    folder = tiny_lora(tmp_path / "adapter")
    config = folder / "adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | changes))
    return served_adapter(scan_tree(folder), scan_tree(tiny_llama(tmp_path / "base")))


def test_an_adapter_of_the_base_fits(tmp_path: Path) -> None:
    found = adapter(tmp_path)
    assert (found.rank, found.max_rank, found.named_base) == (4, 8, "org/base")
    assert found.folder == tmp_path / "adapter"
    assert found.misfits() == ()


def test_a_base_of_another_width_or_depth_does_not_fit(tmp_path: Path) -> None:
    tree = scan_tree(tiny_lora(tmp_path / "adapter"))
    wide = served_adapter(tree, scan_tree(tiny_llama(tmp_path / "wide", hidden=128)))
    assert wide.misfits()[0] == (
        "'model.layers.0.self_attn.q_proj' is [128, 128] in the base, and the adapter changes [64, 64]"
    )
    shallow = served_adapter(tree, scan_tree(tiny_llama(tmp_path / "shallow", layers=1)))
    assert shallow.misfits() == ("the base has no 'model.layers.1.self_attn.q_proj'",)


def test_a_base_that_can_not_be_read_decides_nothing(tmp_path: Path) -> None:
    found = adapter(tmp_path)
    (tmp_path / "base" / "model.safetensors").write_bytes(b"no header")
    with pytest.raises(CannotDecideError, match=r"the base's model\.safetensors"):
        found.misfits()


def test_the_largest_rank_that_is_named_counts(tmp_path: Path) -> None:
    assert adapter(tmp_path, rank_pattern={"layers.1": 40}).max_rank == 64


@pytest.mark.parametrize("changes", [{"r": 4096}, {"r": 0}, {"r": None}])
def test_a_rank_that_no_engine_serves_decides_nothing(tmp_path: Path, changes: dict[str, object]) -> None:
    with pytest.raises(CannotDecideError, match="an engine serves ranks from 1 to 512"):
        adapter(tmp_path, **changes)


def test_two_adapters_are_two_releases(tmp_path: Path) -> None:
    tiny_lora(tmp_path / "both" / "one")
    tiny_lora(tmp_path / "both" / "two")
    with pytest.raises(CannotDecideError, match="holds 2 adapters"):
        served_adapter(scan_tree(tmp_path / "both"), scan_tree(tiny_llama(tmp_path / "base")))


def test_a_misfit_is_a_finding_before_any_engine_is_asked(tmp_path: Path) -> None:
    base = tiny_llama(tmp_path / "base", hidden=128)
    no_engine = CannotDecideError("must not be asked for")
    seen = observe(
        long_context.CHECK,
        LongContextLimits(),
        no_engine,
        model=tiny_lora(tmp_path / "a"),
        base=base,
        serving=Serving(),
    )
    assert rules(seen) == ["long-context.adapter-base"]
    assert "[128, 128] in the base" in seen.findings[0].message


def test_length_and_kv_cache_are_those_of_the_base(tmp_path: Path) -> None:
    base = tiny_llama(tmp_path / "base", max_positions=256)
    limits = LongContextLimits(fractions=(0.5,), prompts_per_length=1, answer_tokens=16)
    with FaultEngine(tmp_path, max_model_len=256) as engine:
        seen = observe(
            long_context.CHECK, limits, engine.endpoint, model=tiny_lora(tmp_path / "a"), base=base, serving=Serving()
        )
    assert (rules(seen), reasons(seen)) == ([], "")
    assert measured(seen, "longest-answered") == 256
    assert measured(seen, "kv-blocks-computed") == 8
    assert measured(seen, "adapter-base") == f"folder {base}"


@pytest.mark.parametrize("adapters", [("one",), ("one", "two")])
def test_the_one_adapter_of_a_running_engine_is_asked_with_its_bases_length(
    tmp_path: Path, adapters: tuple[str, ...]
) -> None:
    with fault_engine(tmp_path, adapters=adapters) as engine:
        if len(adapters) == 1:
            chosen = choose_adapter(engine.endpoint)
            assert (chosen.model, chosen.max_model_len) == ("one", engine.max_model_len)
        else:
            with pytest.raises(CannotDecideError, match=r"serves 2 adapters \(one, two\), and the release is one"):
                choose_adapter(engine.endpoint)


def test_a_running_engine_without_an_adapter_decides_nothing(tmp_path: Path) -> None:
    with FaultEngine(tmp_path) as engine, pytest.raises(CannotDecideError) as caught:
        choose_adapter(engine.endpoint)
    assert "serves no adapter" in caught.value.message
    assert "--lora-modules" in (caught.value.remedy or "")
