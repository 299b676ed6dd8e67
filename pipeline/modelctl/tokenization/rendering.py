"""Renders a chat template the way transformers does, in Jinja's immutable sandbox, and reads the result.

A template must render a plain conversation, keep every message, and end the assistant's turn with a token on which
generation stops. Call everything here in a bounded fork.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_RENDERED_CHARACTERS = 1 << 20
"""A conversation of a few short messages that renders to more than this is an attack, not a prompt."""

Message = Mapping[str, Any]
USER, REPLY, FOLLOW_UP, RULES = "第一个问题 QX7 ?", "A reply: RX8.", "And then 然后 QX9", "Answer briefly: SX6."
SINGLE: Sequence[Message] = ({"role": "user", "content": USER},)
ANSWERED: Sequence[Message] = (*SINGLE, {"role": "assistant", "content": REPLY})
MULTI_TURN: Sequence[Message] = (*ANSWERED, {"role": "user", "content": FOLLOW_UP})
WITH_SYSTEM: Sequence[Message] = ({"role": "system", "content": RULES}, *SINGLE)
TOOL_NAME = "weather_of_TX4"
TOOL_RESULT = '{"degrees": -3, "seen": "TR5"}'
TOOLS: Sequence[Mapping[str, Any]] = (
    {
        "type": "function",
        "function": {
            "name": TOOL_NAME,
            "description": "The weather of a city now.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "description": "Name of the city."}},
                "required": ["city"],
            },
        },
    },
)

_MARKER = re.compile(r"<\|[^|<>\s]{1,40}\|>|</?[a-z_]{1,20}>|\[/?[A-Z_]{1,20}\]")


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """What came out: a text, or why there is none. `refused` is a template's own `raise_exception`."""

    text: str | None
    failure: str = ""
    refused: bool = False
    unsafe: bool = False


class _RefusalError(Exception):
    """The template called `raise_exception`."""


def environment() -> ImmutableSandboxedEnvironment:
    """What chat templates are written for: trimmed blocks, loop controls, the `generation` tag and a plain `tojson`."""
    from jinja2 import nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.parser import Parser
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class GenerationTag(Extension):
        """`{% generation %}`: marks the assistant's text for training; it renders its body."""

        tags = {"generation"}  # noqa: RUF012 - the attribute of Jinja's own base class

        def parse(self, parser: Parser) -> nodes.Node:
            """The body as a scope of its own."""
            line = next(parser.stream).lineno
            return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)

    def refuse(message: object) -> None:
        raise _RefusalError(str(message))

    def to_json(
        value: object,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, loopcontrols])
    made.filters["tojson"] = to_json
    made.globals["raise_exception"] = refuse
    made.globals["strftime_now"] = lambda pattern: datetime.now().astimezone().strftime(pattern)
    return made


def render(
    source: str,
    messages: Sequence[Message],
    special_tokens: Mapping[str, str],
    *,
    generation_prompt: bool,
    parts: bool = False,
    tools: Sequence[Mapping[str, Any]] | None = None,
) -> Rendered:
    """Render a conversation; `parts` gives each content as a list of one text part, as multimodal templates want.

    `tools` are JSON schemas of functions that the model may call.

    Raises `MemoryError` when the rendering is over `MAX_RENDERED_CHARACTERS`.
    """
    from jinja2.exceptions import SecurityError, TemplateError

    given: list[dict[str, Any]] = [
        {**message, "content": [{"type": "text", "text": message["content"]}]}
        if parts and isinstance(message.get("content"), str)
        else dict(message)
        for message in messages
    ]
    pieces: list[str] = []
    length = 0
    try:
        template = environment().from_string(source)
        for piece in template.generate(
            messages=given,
            tools=tools and list(tools),
            documents=None,
            add_generation_prompt=generation_prompt,
            **special_tokens,
        ):
            length += len(piece)
            if length > MAX_RENDERED_CHARACTERS:
                raise MemoryError
            pieces.append(piece)
    except _RefusalError as error:
        return Rendered(text=None, failure=f"it refuses: {error}", refused=True)
    except SecurityError as error:
        return Rendered(text=None, failure=str(error), unsafe=True)
    except (
        TemplateError,
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        return Rendered(text=None, failure=f"{type(error).__name__}: {error}")
    return Rendered(text="".join(pieces))


def dropped(messages: Sequence[Message], text: str) -> list[str]:
    """Roles of the messages whose content is not in the text, in order; a system message may stand anywhere."""
    missing: list[str] = []
    position = 0
    for message in messages:
        begin = 0 if message["role"] == "system" else position
        found = text.find(message["content"], begin)
        if found < 0:
            missing.append(message["role"])
        elif message["role"] != "system":
            position = found + len(message["content"])
    return missing


def end_of_turn(text: str, tokens: Sequence[str]) -> str | None:
    """What closes the assistant's turn in a rendered `ANSWERED`: the first token after the reply, or what looks so.

    None when nothing but plain text follows.
    """
    rest = text[text.rfind(REPLY) + len(REPLY) :]
    places = [(rest.find(token), -len(token), token) for token in tokens if token and token in rest]
    if places:
        return min(places)[2]
    marker = _MARKER.search(rest)
    return marker.group() if marker else None
