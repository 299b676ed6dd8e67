"""JSON and YAML files as pairs, and the chat templates in them.

Every pair of every object is looked at, the first of two equal keys too, since programs differ in which one they
take.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_JSON_BYTES = 48 << 20
_HOOK_BYTES = re.compile(
    rb"auto_map|custom_pipeline|_target_|trust_remote_code|chat_template|attn_implementation|parent_library|"
    rb"loader_module|use_kernels|megatron_core|custom_generate|"
    rb"\\u00[4-7][0-9a-fA-F]"
)
"""Names of hooks, or letters spelt as escapes to hide one."""
MAX_YAML_BYTES = 64 << 10
MAX_YAML_DEPTH = 64
"""Mappings and lists within each other in YAML: the time that a parser takes grows with its third power."""
MAX_VALUES = 6_000_000
"""Values in one document: a parsed one takes about 100 bytes, so a small file cannot fill the memory."""


class Pairs(list[tuple[str, object]]):
    """A JSON object as its pairs, in the order of the file."""


def parse(content: bytes) -> object:
    """A JSON document with objects as `Pairs`. Raises `ValueError`, also for nesting that is too deep."""
    if sum(map(content.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise ValueError(f"more than {MAX_VALUES} values")
    try:
        return json.loads(content.decode("utf-8-sig"), object_pairs_hook=Pairs)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def parse_yaml(content: bytes) -> object:
    """The documents of a YAML file as a list, with mappings as `Pairs`; nothing is built, no alias is followed.

    Raises `ValueError`. Events are read one by one, so that nothing behind the deepest level is looked at.
    """
    from ruamel.yaml import YAML, events
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    if len(content) > MAX_YAML_BYTES:
        raise ValueError(f"{len(content)} bytes of YAML are too many to be examined")
    documents: list[object] = []
    stack: list[_Open] = [_Open(target=documents)]
    try:
        for event in YAML(typ="safe", pure=True).parse(content.decode("utf-8-sig")):
            if isinstance(event, events.ScalarEvent):
                plain = {"true": True, "false": False, "null": None, "": None}
                stack[-1].put(event.value if event.style else plain.get(event.value.lower(), event.value))
            elif isinstance(event, events.AliasEvent):
                stack[-1].put("*" + str(event.anchor))
            elif isinstance(event, events.MappingStartEvent | events.SequenceStartEvent):
                begun: list[object] = Pairs() if isinstance(event, events.MappingStartEvent) else []  # type: ignore[assignment]
                stack[-1].put(begun)
                stack.append(_Open(target=begun))
                if len(stack) > MAX_YAML_DEPTH:
                    raise ValueError("nested too deeply")
            elif isinstance(event, events.MappingEndEvent | events.SequenceEndEvent):
                stack.pop()
    except (YAMLError, MarkedYAMLError, RecursionError) as error:
        raise ValueError(f"no YAML: {str(error)[:200]}") from error
    return documents


@dataclass(kw_only=True)
class _Open:
    """A collection that is being filled; a mapping takes a key, then its value."""

    target: list[object]
    key: object = None
    has_key: bool = False

    def put(self, value: object) -> None:
        if not isinstance(self.target, Pairs):
            self.target.append(value)
        elif self.has_key:
            self.target.append((str(self.key), value))
            self.has_key = False
        else:
            self.key, self.has_key = value, True


def may_hold_hooks(content: bytes) -> bool:
    """Whether a file that does not parse mentions a hook all the same."""
    return bool(_HOOK_BYTES.search(content))


def templates(document: object) -> Iterator[tuple[str, str]]:
    """(name, text) of every chat template: a text, a list of named texts or an object of them."""
    for key, value in pairs(document):
        if key not in ("chat_template", "chat_templates"):
            continue
        if isinstance(value, str):
            yield key, value
        elif isinstance(value, Pairs):
            yield from ((f"{key}.{short(name)}", text) for name, text in value if isinstance(text, str))
        elif isinstance(value, list):
            for number, item in enumerate(value):
                texts = [text for name, text in item if name == "template"] if isinstance(item, Pairs) else [item]
                yield from ((f"{key}[{number}]", text) for text in texts if isinstance(text, str))


def pairs(document: object) -> Iterator[tuple[str, object]]:
    """Every pair of every object in a document, at any depth."""
    waiting = [document]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Pairs):
            yield from item
            waiting += [value for _, value in item]
        elif isinstance(item, list):
            waiting += item


def short(value: object) -> str:
    """A stranger's value for a message: at most 120 characters, all of them printable."""
    return ascii(value)[1:-1][:120] if isinstance(value, str) else ascii(value)[:120]
