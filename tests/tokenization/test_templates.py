from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from jinja2 import TemplateSyntaxError

from modelctl.tokenization.report import Ledger
from modelctl.tokenization.templates import Template, check_places, find_templates, suspicious
from tests.support.models import CHAT_TEMPLATE
from tests.tokenization.models import rules

BENIGN = [
    CHAT_TEMPLATE,
    "{{ messages[0]['content'] }} __init__ is only text here",
    "{%- set ns = namespace(last='') -%}{% for m in messages %}{% set ns.last = m.content %}{% endfor %}{{ ns.last }}",
    "{% generation %}{{ messages | tojson(indent=2) }}{% endgeneration %}{{ strftime_now('%d') }}",
    "{% for m in messages %}{% if loop.index > 9 %}{% break %}{% endif %}{{ m['con' ~ 'tent'][-1] }}{% endfor %}",
    "{% macro turn(m) %}{{ m.role | upper }}{% endmacro %}{% for m in messages %}{{ turn(m) }}{% endfor %}",
    "{{ '{role}: {text}'.format(role='a', text='b') }}{{ messages | map(attribute='role') | join }}",
    "{{ messages[:-1] | selectattr('role', 'equalto', 'user') | list | length }}",
]

HOSTILE = [
    "{{ ''.__class__ }}",
    "{{ cycler.__init__.__globals__ }}",
    "{{ messages['__class__'] }}",
    "{{ messages['__cla' ~ 'ss__'] }}",
    "{{ messages['__cla' + 'ss__'] }}",
    "{{ messages['__ssalc__'[::-1]] }}",
    "{% if false %}{{ lipsum.__globals__['os'] }}{% endif %}",
    "{{ self._TemplateReference__context }}",
    "{{ messages | attr('content') }}",
    "{{ messages | map(attribute='__class__') | list }}",
    "{{ messages | map(attribute='role.__class__') | list }}",
    "{{ messages | selectattr('__class__') | list }}",
    "{{ '{0.__class__}'.format(messages) }}",
    "{{ '{0[__class__]}'.format(messages) }}",
    "{% include 'other' %}",
    "{% import 'other' as other %}",
    "{% extends 'other' %}",
]


@pytest.mark.parametrize("source", BENIGN)
def test_what_real_templates_do_is_not_suspicious(source: str) -> None:
    assert suspicious(source) == []


@pytest.mark.parametrize("source", HOSTILE)
def test_reaching_for_python_is_suspicious(source: str) -> None:
    assert suspicious(source)


def test_a_template_that_does_not_parse_is_an_error() -> None:
    with pytest.raises(TemplateSyntaxError):
        suspicious("{% for %}")


def test_templates_are_found_wherever_they_stand(tmp_path: Path) -> None:
    named = [{"name": "default", "template": "a"}, {"name": "rag", "template": "b"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    (tmp_path / "chat_template.json").write_text(json.dumps({"chat_template": "c"}))
    (tmp_path / "processor_config.json").write_text(json.dumps({"chat_template": {"default": "d"}}))
    (tmp_path / "chat_template.jinja").write_text("e")
    for name in ("additional_chat_templates/rag.jinja", "sub/chat_template.jinja", "docs/letter.j2"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("f")
    files = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    ledger = Ledger()
    found = {(item.folder, item.name, item.source) for item in find_templates(tmp_path, files, ledger)}
    assert found == {
        ("", "default", "a"), ("", "rag", "b"), ("", "default", "c"), ("", "default", "d"), ("", "default", "e"),
        ("", "rag", "f"), ("sub", "default", "f"), ("docs", "docs/letter.j2", "f"),
    }  # fmt: skip
    assert rules(ledger) == []


@pytest.mark.parametrize("value", [3, [3], [{"name": "x"}], {"x": 1}, [["default", "a"]]])
def test_a_template_of_another_type_is_unreadable(tmp_path: Path, value: object) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": value}))
    ledger = Ledger()
    assert find_templates(tmp_path, ["tokenizer_config.json"], ledger) == []
    assert rules(ledger) == ["unreadable"]


def test_a_huge_template_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_bytes(b"x" * ((1 << 20) + 1))
    ledger = Ledger()
    find_templates(tmp_path, ["chat_template.jinja"], ledger)
    assert rules(ledger) == ["unreadable"]


def test_places_of_one_name_must_agree_but_for_line_ends() -> None:
    first = Template(name="default", path="chat_template.jinja", source="a\nb\n")
    ledger = Ledger()
    check_places([first, Template(name="default", path="tokenizer_config.json", source="a\r\nb")], ledger)
    check_places([first, Template(name="rag", path="tokenizer_config.json", source="c")], ledger)
    check_places([first, Template(name="default", path="sub/chat_template.jinja", source="c")], ledger)
    assert rules(ledger) == []
    check_places([first, Template(name="default", path="tokenizer_config.json", source="a\nc")], ledger)
    assert rules(ledger) == ["template-conflict"]
    assert "line 2 has 'b' in the one and 'c' in the other" in ledger.problems[0].message


def test_a_template_in_gguf_metadata_counts_as_one_of_the_places(tmp_path: Path) -> None:
    def text(words: str) -> bytes:
        return struct.pack("<Q", len(words)) + words.encode()

    entries = [("general.name", "m"), ("tokenizer.chat_template", "a"), ("tokenizer.chat_template.rag", "b")]
    body = b"".join(text(key) + struct.pack("<I", 8) + text(value) for key, value in entries)
    (tmp_path / "m.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + body)
    (tmp_path / "chat_template.jinja").write_text("c")
    (tmp_path / "cut.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 9))
    ledger = Ledger()
    found = find_templates(tmp_path, ["chat_template.jinja", "m.gguf", "cut.gguf"], ledger)
    assert [(item.name, item.source) for item in found] == [("default", "c"), ("default", "a"), ("rag", "b")]
    assert rules(ledger) == ["unreadable"]
    check_places(found, ledger)
    assert rules(ledger) == ["unreadable", "template-conflict"]
