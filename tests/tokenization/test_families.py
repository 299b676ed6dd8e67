"""Replicas of real families pass, with the warnings that their quirks deserve and no other."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from modelctl.tokenization.report import Report
from tests.tokenization.families import FAMILIES
from tests.tokenization.flaws import write_other_tokens
from tests.tokenization.many import examine_all, request_for, rules_of

pytestmark = pytest.mark.slow

NO_TEMPLATE = "no chat template"
QUIRKS: Mapping[str, tuple[str, ...]] = {
    "llama-2": ("tokenizers and transformers give different ids",),
    "mistral": ("refuses system messages",),
    "mistral-nemo": ("refuses system messages",),
    "qwen-2.5": ("model_max_length 131072",),
    "qwen-3": ("model_max_length 131072",),
    "gemma-2": ("refuses system messages",),
    "gpt-2": (NO_TEMPLATE,),
    "bert": (NO_TEMPLATE,),
    "mini-lm": ("cuts every text at 128 tokens", NO_TEMPLATE),
    "t5": (NO_TEMPLATE,),
    "xlm-roberta": (NO_TEMPLATE,),
    "smollm2": ("tokenizers and transformers give different ids",),
    "deepseek-distill": ("model_max_length 16384",),
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Report]:
    root = tmp_path_factory.mktemp("families")
    requests = {name: request_for(build(root / name)) for name, build in FAMILIES.items()}
    other = FAMILIES["gpt-2"](root / "other")
    write_other_tokens(other)
    requests["of itself"] = request_for(root / "gpt-2", baseline=root / "gpt-2")
    requests["of another"] = request_for(other, baseline=root / "gpt-2")
    requests["of nothing"] = request_for(root / "gpt-2", baseline=root)
    return examine_all(requests)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_real_familys_files_pass(name: str, reports: Mapping[str, Report]) -> None:
    report = reports[name]
    assert rules_of(report) == [], [problem.message for problem in report.problems]
    assert report.doubts == ()
    assert report.excluded == ()
    assert (len(report.files), report.texts) == (report.files_total, report.texts_total)
    quirks = QUIRKS.get(name, ())
    assert len(report.warnings) == len(quirks), report.warnings
    for warning, words in zip(report.warnings, quirks, strict=True):
        assert words in warning


@pytest.mark.parametrize("name", ["llama-2", "mistral", "gemma-2", "phi-3", "t5", "xlm-roberta"])
def test_the_sentencepiece_model_gives_the_same_ids(name: str, reports: Mapping[str, Report]) -> None:
    figures = {figure.name: figure for figure in reports[name].figures}
    assert figures["sentencepiece-texts-with-other-ids"].value == 0
    assert "sentencepiece" in reports[name].tools


def test_tekken_json_gives_the_same_ids(reports: Mapping[str, Report]) -> None:
    figures = {figure.name: figure.value for figure in reports["mistral-nemo"].figures}
    assert figures["tekken-texts-with-other-ids"] == 0
    assert "tekken.json" in reports["mistral-nemo"].files


def test_the_original_with_the_same_ids_passes(reports: Mapping[str, Report]) -> None:
    assert rules_of(reports["of itself"]) == []
    figures = {figure.name: figure.value for figure in reports["of itself"].figures}
    assert figures["texts-with-other-ids-than-the-original"] == 0


def test_another_id_than_the_originals_is_named_with_the_text(reports: Mapping[str, Report]) -> None:
    messages = [item.message for item in reports["of another"].problems if item.rule == "baseline-differs"]
    assert "texts have other ids than with the original's tokenizer; '" in messages[0]
    assert "2 tokens of the original have another id" in messages[1]


def test_an_original_without_a_tokenizer_decides_nothing(reports: Mapping[str, Report]) -> None:
    assert "can't be compared with the original's" in reports["of nothing"].doubts[0].reason
