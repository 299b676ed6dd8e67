"""Templates that reach into Python are refused by their syntax; ordinary ones pass."""

from __future__ import annotations

import pytest

from modelctl.scan.template_rules import problems

CHATML = (
    "{%- if tools %}{{ tools | tojson(indent=2) }}{% endif %}{% set ns = namespace(found=false) %}"
    "{% for message in messages %}"
    "{% if loop.index0 == 0 and message['role'] != 'system' %}{{ '__start__' }}{% endif %}"
    "{{ '<|im_start|>' + message.role + '\n' + message['content'] | trim }}{{ messages[loop.index0 - 1].role }}"
    "{% generation %}{{ message.content.split('</think>')[-1].lstrip('\n') }}{% endgeneration %}"
    "{% if message.tool_calls is defined %}"
    "{% for call in message.tool_calls %}{{ call.function.arguments|items }}{% endfor %}{% endif %}"
    "{% if loop.last %}{% break %}{% endif %}{% endfor %}{{ raise_exception('no') }}{{ strftime_now('%d') }}"
    "{% macro part(x) %}{{ x }}{% endmacro %}{{ messages | map(attribute='role') | join(', ') }}"
    "{{ x[messages[i + 1].role] }}"
)


def test_an_ordinary_template_passes() -> None:
    assert problems(CHATML) == []


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.__init__.__globals__['os'].popen('x') }}",
        "{{ messages['__class__'] }}",
        "{{ messages['_private'] }}",
        "{{ messages|attr('__cla' ~ 'ss__') }}",
        "{{ messages|attr(x) }}",
        "{{ messages['\\x5f\\x5fclass\\x5f\\x5f'] }}",
        "{{ messages['_' ~ '_cl' ~ 'ass_' ~ '_'] }}",
        "{{ messages['a' + x] }}",
        "{{ messages[['a', 'b']|join] }}",
        "{{ messages|map(attribute=x) }}",
        "{{ '%s.__globals__' }}",
        "{{ '{0.__class__}'.format(x) }}",
        "{{ lipsum }}",
        "{{ cycler.x }}",
        "{% include 'x' %}",
        "{% import 'x' as x %}",
        "{% from 'x' import y %}",
        "{% extends 'x' %}",
        "{% if x %}",
        "{{ " + "(" * 3000 + " }}",
    ],
)
def test_a_template_that_reaches_into_python_is_refused(template: str) -> None:
    assert problems(template)


@pytest.mark.parametrize(
    "template",
    [
        "{% set k = '_' * 2 ~ 'class' ~ '_' * 2 %}{{ x[k] }}",
        "{% set a = '__glo' %}{% set b = a ~ 'bals__' %}{{ x }}",
        "{{ ['__cla', 'ss__'] | join }}",
        "{{ '__ssalc__' | reverse }}",
        "{{ '__ssalc__'[::-1] }}",
        "{{ '%s%s' % ('__cla', 'ss__') }}",
        "{{ '__xlass__'.replace('x', 'c') }}",
        "{{ '{}{}'.format('__cla', 'ss__') }}",
        "{{ '{0._x}'.format(y) }}",
        "{{ x | sort(attribute='a.__class__') }}",
        "{{ x | groupby(y) }}",
        "{{ x | selectattr(y) | list }}",
        "{{ 10 ** 12 }}",
        "{{ 'x' * 10000000 }}",
        "{{ 'x' | center(10000000) }}",
        "{{ 'x'.ljust(10000000) }}",
        "{{ '%9999999d' % 1 }}",
        "{{ '{:9999999}'.format(1) }}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    ],
)
def test_built_names_and_giant_sizes_are_refused(template: str) -> None:
    assert problems(template)


def test_parsing_does_not_fold_constants() -> None:
    assert problems("{{ 'x' * 10 ** 12 }}") == ["line 1: raises to a power, for which a chat has no use"]
