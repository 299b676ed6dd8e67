"""Every check says which kinds it can judge, and why not the others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from modelctl.checks import CHECK_IDS, LOADING_GATE
from modelctl.checks.fitness import FITS, does_not_fit
from modelctl.model.kinds import Kind, KindName

KINDS: tuple[KindName, ...] = get_args(KindName)


def kind(name: KindName) -> Kind:
    return Kind(name=name, because=f"evidence of {name}")


def test_every_check_has_its_kinds() -> None:
    assert tuple(FITS) == CHECK_IDS
    for kinds in FITS.values():
        assert kinds <= set(KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_what_reads_bytes_fits_every_kind(name: KindName) -> None:
    assert [does_not_fit(check, [kind(name)]) for check in LOADING_GATE] == [None, None, None]


@pytest.mark.parametrize("check", CHECK_IDS)
def test_a_kind_that_nobody_knows_is_tried(check: str) -> None:
    assert does_not_fit(check, [kind("unknown")]) is None


@pytest.mark.parametrize(
    ("check", "misfits"),
    [
        ("tokenizer", {"gguf"}),
        ("quantization", {"embedding", "vision-language", "lora-adapter", "gguf"}),
        ("long-context", {"lora-adapter", "gguf"}),
        ("concurrency", {"lora-adapter", "gguf"}),
    ],
)
def test_what_a_check_does_not_fit(check: str, misfits: set[str]) -> None:
    assert {name for name in KINDS if does_not_fit(check, [kind(name)]) is not None} == misfits


def test_the_reason_names_the_kind_and_its_evidence() -> None:
    reason = does_not_fit("concurrency", [kind("lora-adapter"), kind("gguf")])
    assert reason is not None
    assert reason.startswith("this version serves and asks only whole models in safetensors, that write text")
    assert reason.endswith("found lora-adapter (evidence of lora-adapter); gguf (evidence of gguf)")


def test_one_fitting_kind_is_enough() -> None:
    assert does_not_fit("concurrency", [kind("causal-lm"), kind("gguf")]) is None
    assert does_not_fit("quantization", [kind("vision-language"), kind("lora-adapter")]) is not None


@pytest.mark.parametrize("check", ["long-context", "concurrency"])
def test_an_adapter_is_served_on_a_base_that_can_be(check: str) -> None:
    adapter = [kind("lora-adapter")]
    without = does_not_fit(check, adapter)
    assert without is not None
    assert without.startswith("an adapter is served on its base, and no release names one (spec.base); found lora-ada")
    assert does_not_fit(check, adapter, base=[kind("causal-lm")]) is None
    of_gguf = does_not_fit(check, adapter, base=[kind("gguf")])
    assert of_gguf is not None
    assert of_gguf.startswith("of the adapter's base: ")


def test_the_documents_say_the_same() -> None:
    text = (Path(__file__).parents[2] / "docs" / "checks.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([a-z-]+)` \|.*\|([^|]*)\|$", text, re.MULTILINE))
    documented = {name: re.findall(r"[a-z-]+", rows[name]) for name in KINDS}
    assert documented == {name: [check for check in CHECK_IDS if name not in FITS[check]] for name in KINDS}
