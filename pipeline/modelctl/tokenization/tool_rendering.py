"""Whether a chat template that speaks of tools renders them, a call, and what the tool answered.

Families want a call in different shapes (arguments as an object or as JSON, content empty or null, ids of nine
characters), so a conversation counts as rendered when one shape of it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from modelctl.tokenization.reading import shown_plain
from modelctl.tokenization.rendering import (
    SINGLE,
    TOOL_NAME,
    TOOL_RESULT,
    TOOLS,
    Message,
    environment,
    render,
)
from modelctl.tokenization.report import Ledger
from modelctl.tokenization.templates import Template

_CURE = "take the template from the upstream repository, or mend it"
_CALL_ID = "Qx7Ab3Yz9"
"""Nine letters and digits, as Mistral's templates want it."""


def judge_tools(template: Template, tokens: Mapping[str, str], seen: Ledger) -> None:
    """Render with a tool, then with a call and its result; nothing when the template does not mention tools."""
    from jinja2 import meta

    names = meta.find_undeclared_variables(environment().parse(template.source))
    takes_tools = "tools" in names
    seen.figure("chat-template-tools", takes_tools, template=template.path)
    if not takes_tools:
        return
    parts = False
    result = render(template.source, SINGLE, tokens, generation_prompt=True, tools=TOOLS)
    if result.text is None or SINGLE[0]["content"] not in result.text:
        parts = True
        result = render(template.source, SINGLE, tokens, generation_prompt=True, tools=TOOLS, parts=True)
    if result.text is None:
        seen.problem(
            "template-unsafe" if result.unsafe else "template-tools",
            shown_plain(f"speaks of tools and does not render a conversation with one: {result.failure}"),
            remedy=_CURE,
            path=template.path,
        )
        return
    if TOOL_NAME not in result.text or SINGLE[0]["content"] not in result.text:
        seen.problem(
            "template-tools",
            "speaks of tools, and the prompt of a conversation with one lacks the tool's name or the user's message: "
            "the model never learns of it",
            remedy=_CURE,
            path=template.path,
        )
        return
    if "tool_calls" in template.source:
        _judge_call(template, tokens, seen, parts=parts)


def _judge_call(template: Template, tokens: Mapping[str, str], seen: Ledger, *, parts: bool) -> None:
    failure, lost = "", False
    for messages in _conversations():
        result = render(template.source, messages, tokens, generation_prompt=True, tools=TOOLS, parts=parts)
        if result.text is None:
            failure = result.failure
            continue
        plain = result.text.replace("\\", "")  # some templates quote the answer as JSON
        if TOOL_NAME in plain and "TR5" in plain:
            return
        lost = True
    if lost:
        seen.problem(
            "template-tools",
            "the prompt after a tool call lacks the call or the tool's answer: the model asks again and again",
            remedy=_CURE,
            path=template.path,
        )
    else:
        seen.warnings.append(
            shown_plain(f"{template.path}: the template speaks of tool calls and rendered none in any shape: {failure}")
        )


def _conversations() -> Iterator[Sequence[Message]]:
    for arguments in ({"city": "上海"}, '{"city": "上海"}'):
        for content in ("", None):
            call = {"id": _CALL_ID, "type": "function", "function": {"name": TOOL_NAME, "arguments": arguments}}
            yield (
                *SINGLE,
                {"role": "assistant", "content": content, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": _CALL_ID, "name": TOOL_NAME, "content": TOOL_RESULT},
            )
