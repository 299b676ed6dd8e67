from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from modelctl.checks.base import Observation
from modelctl.checks.limits import TokenizerLimits
from modelctl.checks.tokenizer import CHECK
from modelctl.errors import CannotDecideError, DoesNotApplyError
from modelctl.model.tree import scan_tree
from tests.support.contexts import tree_context
from tests.support.models import CHAT_TEMPLATE, tiny_llama
from tests.tokenization.models import edit_json

Run = Callable[..., Observation]


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("pristine") / "model", vocab=320)


@pytest.fixture
def folder(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "model"))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def run(folder: Path, **limits: object) -> Observation:
        return CHECK.run(tree_context(folder, TokenizerLimits.model_validate(limits), scratch=tmp_path / "scratch"))

    return run


def rules(seen: Observation) -> set[str]:
    return {finding.rule for finding in seen.findings}


def test_a_good_model_passes_with_everything_looked_at(folder: Path, run: Run) -> None:
    seen = run(folder)
    assert seen.findings == ()
    assert seen.undecided == ()
    assert seen.warnings == ()
    assert {item.unit: (item.seen, item.total) for item in seen.coverage} == {
        "tokenizer files": (4, 4),
        "texts": (59, 59),
        "chat templates": (1, 1),
    }
    assert {item.name for item in seen.measurements} >= {"embedding-rows", "vocabulary", "lossless-texts"}
    assert set(seen.tools) == {"jinja2", "tokenizers", "transformers"}


@pytest.mark.slow
def test_every_fault_of_one_tree_is_found_in_one_run(folder: Path, run: Run) -> None:
    """All of it with paths, so that a person mends them together."""

    def unknown_token(settings: dict[str, object]) -> None:
        settings["additional_special_tokens"] = ["<|tool|>"]
        settings["chat_template"] = "{{ messages[0].__class__ }}"

    def clash(tokenizer: dict[str, list[object]]) -> None:
        tokenizer["added_tokens"].append({"id": 5, "content": "<|clash|>", "special": True})

    edit_json(folder / "tokenizer_config.json", unknown_token)
    edit_json(folder / "tokenizer.json", clash)
    edit_json(folder / "generation_config.json", lambda it: it.update(eos_token_id=0))
    edit_json(folder / "config.json", lambda it: it.update(eos_token_id=700, vocab_size=512))
    seen = run(folder)
    assert rules(seen) >= {
        "tokenizer.special-missing",
        "tokenizer.template-unsafe",
        "tokenizer.template-conflict",
        "tokenizer.template-end-token",
        "tokenizer.id-clash",
        "tokenizer.eos-token",
        "tokenizer.special-id",
        "tokenizer.vocab-size",
    }
    assert all(finding.remedy for finding in seen.findings)


@pytest.mark.slow
def test_an_id_past_the_embedding_is_refused_and_padding_rows_are_not(folder: Path, run: Run, tmp_path: Path) -> None:
    padded = tiny_llama(tmp_path / "padded", vocab=300)
    for name in ("config.json", "model.safetensors"):
        shutil.copy(padded / name, folder / name)
    seen = run(folder)
    assert "tokenizer.id-range" in rules(seen)
    larger = tiny_llama(tmp_path / "larger", vocab=512)
    for name in ("config.json", "model.safetensors"):
        shutil.copy(larger / name, folder / name)
    assert run(folder).findings == ()


def test_a_tree_without_a_tokenizer_is_refused(folder: Path, run: Run) -> None:
    (folder / "tokenizer.json").unlink()
    seen = run(folder)
    assert rules(seen) == {"tokenizer.missing"}
    assert seen.coverage[0].seen > 0


@pytest.mark.slow
def test_an_older_form_alone_is_tried_but_not_decided(folder: Path, run: Run) -> None:
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    (folder / "merges.txt").write_text("\n".join(" ".join(pair) for pair in model["merges"]))
    edit_json(folder / "tokenizer_config.json", lambda it: it.update(tokenizer_class="GPT2Tokenizer"))
    seen = run(folder)
    assert "no tokenizer.json" in seen.undecided[0].reason
    assert {item.unit: item.seen for item in seen.coverage}["texts"] == 59


@pytest.mark.slow
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"a":' * 100_000,
        b'{"model": 1, "model": 2}',
        b"\xff{}",
        b'{"model": {"vocab": {"\\ud800": 1}}}',
        b"{}",
    ],
    ids=["empty", "a list", "deep", "a key twice", "not UTF-8", "a lone surrogate", "nothing in it"],
)
def test_a_hostile_file_is_a_finding_and_never_a_pass(folder: Path, run: Run, content: bytes) -> None:
    (folder / "tokenizer.json").write_bytes(content)
    seen = run(folder)
    assert rules(seen) & {"tokenizer.unreadable", "tokenizer.load"}


@pytest.mark.slow
def test_a_template_bomb_is_a_finding_and_the_rest_is_still_looked_at(folder: Path, run: Run) -> None:
    (folder / "chat_template.jinja").write_text("{% set x = 'x' * 9000000000 %}" + CHAT_TEMPLATE)
    seen = run(folder, template_time_limit_s=1)
    assert rules(seen) == {"tokenizer.template-limits"}
    assert {item.unit: item.seen for item in seen.coverage}["texts"] == 59


def test_running_out_of_time_is_undecided(folder: Path, run: Run) -> None:
    seen = run(folder, load_time_limit_s=0.05)
    assert seen.findings == ()
    assert "0.05 s of time" in seen.undecided[0].reason


@pytest.mark.slow
def test_a_model_without_a_template_is_refused_only_when_the_policy_wants_one(folder: Path, run: Run) -> None:
    (folder / "chat_template.jinja").unlink()
    seen = run(folder)
    assert seen.findings == ()
    assert "no chat template" in seen.warnings[0]
    assert rules(run(folder, chat_template_required=True)) == {"tokenizer.template-missing"}


@pytest.mark.slow
def test_a_model_that_ships_python_is_not_run(folder: Path, run: Run, tmp_path: Path) -> None:
    trap = tmp_path / "ran"
    for name in ("json.py", "tokenizers.py", "tokenization_x.py", "sitecustomize.py"):
        (folder / name).write_text(f"open({str(trap)!r}, 'w').close()\n")
    edit_json(
        folder / "tokenizer_config.json", lambda it: it.update(auto_map={"AutoTokenizer": ["tokenization_x.X", None]})
    )
    seen = run(folder)
    assert not trap.exists()
    assert rules(seen) <= {"tokenizer.load"}


@pytest.mark.slow
def test_links_of_a_cache_are_followed(folder: Path, run: Run, tmp_path: Path) -> None:
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    for path in list(folder.iterdir()):
        shutil.move(path, blobs / f"of-{path.name}")
        path.symlink_to(blobs / f"of-{path.name}")
    context = tree_context(blobs, TokenizerLimits(), scratch=tmp_path / "other")
    tree = scan_tree(folder, link_roots=[blobs])
    assert tree.folders == [folder, blobs]
    assert CHECK.run(replace(context, tree=tree)).findings == ()


def test_without_transformers_nothing_is_decided(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CannotDecideError) as caught:
        run(folder)
    assert caught.value.remedy == "pip install 'modelctl[tokenizer]'"


@pytest.mark.slow
def test_control_characters_of_the_model_do_not_reach_the_report(folder: Path, run: Run) -> None:
    edit_json(folder / "tokenizer_config.json", lambda it: it.update(eos_token="\x1b[2J\u202e"))
    (folder / "chat_template.jinja").write_text("{{ raise_exception('\x1b[2J') }}")
    seen = run(folder)
    assert rules(seen) >= {"tokenizer.special-missing", "tokenizer.template-render"}
    words = json.dumps([finding.message for finding in seen.findings] + list(seen.warnings), ensure_ascii=False)
    assert "\x1b" not in words
    assert "\u202e" not in words


def test_an_adapter_without_a_tokenizer_uses_that_of_its_base(tmp_path: Path, run: Run) -> None:
    folder = tmp_path / "adapter"
    folder.mkdir()
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA", "base_model_name_or_path": "org/base"}')
    with pytest.raises(DoesNotApplyError, match="that of its base"):
        run(folder)
    (folder / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    assert rules(run(folder)) == {"tokenizer.missing"}
