from __future__ import annotations

import pytest

from modelctl.tokenization.bounded import Bounds
from modelctl.tokenization.conversations import judge
from modelctl.tokenization.report import Ledger
from modelctl.tokenization.special import SpecialTokens
from modelctl.tokenization.templates import Template
from modelctl.tokenization.vocabulary import read_vocabulary
from tests.support.models import CHAT_TEMPLATE
from tests.tokenization.models import rules, some_special_tokens

BOUNDS = Bounds(time_limit_s=1, memory_limit_bytes=128 << 20, waits=20)
NAMED = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "</s>"]
WORDS = read_vocabulary(
    {"added_tokens": [{"id": number, "content": text, "special": True} for number, text in enumerate(NAMED)]},
    None,
    None,
)
SPECIAL = some_special_tokens(config={"eos_token_id": 2}, eos="<|im_end|>", bos="<|endoftext|>")
LOOP = "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}</s>{% endfor %}"


def seen(source: str, special: SpecialTokens = SPECIAL, *, render_it: bool = True) -> Ledger:
    ledger = Ledger()
    template = Template(name="default", path="chat_template.jinja", source=source)
    judge(template, special, WORDS, BOUNDS, render_it=render_it, ledger=ledger)
    return ledger


def test_a_good_template_passes_and_its_end_is_measured() -> None:
    ledger = seen(CHAT_TEMPLATE)
    assert rules(ledger) == []
    assert ledger.warnings == []
    assert [(figure.name, figure.value) for figure in ledger.figures] == [
        ("chat-template-end", "<|im_end|>"),
        ("chat-template-tools", False),
    ]
    assert (ledger.templates, ledger.templates_total) == (1, 1)


@pytest.mark.parametrize(
    "source",
    [
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
        "{{ m.content | trim + eos_token }}{% endfor %}",
        "{% for m in messages %}{% for part in m.content %}{{ part.text }}{% endfor %}<|im_end|>{% endfor %}",
        "{% set system = messages[0].content if messages[0].role == 'system' else '' %}"
        "{% for m in messages if m.role != 'system' %}{{ m.content ~ (system if loop.last) }}<|im_end|>{% endfor %}",
        "{% for m in messages %}### {{ m.role }}\n{{ m.content }}\n{% endfor %}",
    ],
    ids=["refuses system messages", "wants parts", "moves the system message", "ends with no token"],
)
def test_what_real_templates_do_passes(source: str) -> None:
    assert rules(seen(source)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("{% for m in messages %}", "template-syntax"),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "template-syntax"),
        ("{{ messages.__class__ }}", "template-unsafe"),
        ("{{ raise_exception('never') }}", "template-render"),
        ("{{ nothing.there }}", "template-render"),
        ("{{ 1 // 0 }}", "template-render"),
        ("{{ messages[0].content | no_such_filter }}", "template-syntax"),
        ("{{ messages[0].content }}<|im_end|>", "template-drops-message"),
        ("{% for m in messages | reverse %}{{ m.content }}{% endfor %}", "template-drops-message"),
        ("{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}", "template-drops-message"),
        ("{% for m in messages %}{{ m.content[:4] }}{% endfor %}", "template-drops-message"),
        ("{{ 'x' * 3000000000 }}", "template-limits"),
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "template-limits"),
        ("{% for a in range(99999) %}{{ 'x' * 99 }}{% endfor %}", "template-limits"),
        ("{{ 9 ** (9 ** 9) }}", "template-limits"),
    ],
)
def test_a_bad_template_is_found(source: str, rule: str) -> None:
    assert set(rules(seen(source))) == {rule}


def test_a_hidden_key_is_caught_when_it_is_used() -> None:
    source = "{% set key = messages[0].role[:0] ~ '__class__' %}{{ messages[0].role[key].mro() }}"
    assert rules(seen(source)) == ["template-unsafe"]


def test_the_end_of_a_turn_must_end_generation() -> None:
    assert rules(seen(LOOP)) == ["template-end-token"]
    listed = some_special_tokens(config={"eos_token_id": 2}, generation={"eos_token_id": [2, 3]}, eos="<|im_end|>")
    assert rules(seen(LOOP, listed)) == []
    overruled = some_special_tokens(config={"eos_token_id": 3}, generation={"eos_token_id": 2}, eos="<|im_end|>")
    assert rules(seen(LOOP, overruled)) == ["template-end-token"]
    only_tokenizer = some_special_tokens(eos="</s>")
    assert rules(seen(LOOP, only_tokenizer)) == []


def test_an_end_that_the_tokenizer_splits_is_found() -> None:
    ledger = seen(LOOP.replace("</s>", "<|eot_id|>"))
    assert rules(ledger) == ["template-end-token"]
    assert "'<|eot_id|>', which the tokenizer does not have as one token" in ledger.problems[0].message


def test_a_template_that_is_not_used_is_parsed_but_not_rendered() -> None:
    assert rules(seen("{{ raise_exception('x') }}", render_it=False)) == []
    assert rules(seen("{{ x.__class__ }}", render_it=False)) == ["template-unsafe"]
