"""Templates are compiled and rendered in a fork: what never ends or fills the memory is refused, what fails is not."""

from __future__ import annotations

import pytest

from modelctl.scan.template_trial import conversations, trial
from tests.scan.test_template_rules import CHATML

MIB = 1 << 20


def tried(template: str, time_limit_s: float = 20) -> list[str]:
    return trial(template, time_limit_s=time_limit_s, memory_limit_bytes=128 * MIB)


def test_ordinary_and_failing_templates_pass() -> None:
    assert tried(CHATML) == []
    assert tried("{{ raise_exception('no') }}") == []
    assert tried("{{ messages[0].nothing.more }}{{ 1 // 0 }}") == []
    assert tried("{% if %}") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ ('x' * 99999) * 99999 }}", "128 MiB of memory"),
        ("{% set n = namespace(x='ab') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}", "of memory"),
        ("{% for m in messages * 99 %}{{ 'word' * 90000 }}{% endfor %}", "characters"),
        ("{{ messages.append(1) }}", "sandbox"),
    ],
)
def test_a_template_that_takes_too_much_is_refused(template: str, words: str) -> None:
    (reason,) = tried(template)
    assert words in reason


@pytest.mark.slow
def test_a_template_that_does_not_end_in_time_is_refused() -> None:
    loops = "{% for a in range(90000) %}" * 3 + "{% endfor %}" * 3
    assert tried(loops, time_limit_s=1) == [
        "compiling it and rendering a few short conversations takes more than 1 s of time"
    ]


def test_conversations_have_tools_turns_and_parts() -> None:
    given = conversations()
    assert any("tools" in one for one in given)
    assert max(len(one["messages"]) for one in given) > 50
