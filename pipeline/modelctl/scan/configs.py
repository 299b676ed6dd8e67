"""JSON files that make a program load code or a template: `auto_map`, custom pipelines, module lists, chat
templates, notebooks.

Every pair of every object is looked at, the first of two equal keys too, since programs differ in which one they
take.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Rule = Literal["auto-map", "custom-pipeline", "trust-remote-code"]

MAX_JSON_BYTES = 48 << 20
_HOOK_BYTES = re.compile(rb"auto_map|custom_pipeline|_target_|trust_remote_code|\\u00[4-7][0-9a-fA-F]")
"""Names of hooks, or letters spelt as escapes to hide one."""
_LIBRARIES = ("diffusers", "transformers", "sentence_transformers", "torch", "onnxruntime", "optimum", "peft")


@dataclass(frozen=True, kw_only=True)
class Hook:
    """A key that makes a loader import code."""

    rule: Rule
    detail: str


class Pairs(list[tuple[str, object]]):
    """A JSON object as its pairs, in the order of the file."""


def parse(content: bytes) -> object:
    """A JSON document with objects as `Pairs`. Raises `ValueError`, also for nesting that is too deep."""
    try:
        return json.loads(content.decode("utf-8-sig"), object_pairs_hook=Pairs)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def may_hold_hooks(content: bytes) -> bool:
    """Whether a file that does not parse mentions a hook all the same."""
    return bool(_HOOK_BYTES.search(content))


def hooks(document: object, *, file_name: str) -> Iterator[Hook]:
    """Every hook in a parsed document."""
    for key, value in _pairs(document):
        yield from _of_pair(key, value)
    if file_name == "modules.json" and isinstance(document, list):
        for key, value in _pairs(document):
            if key == "type" and not str(value).startswith("sentence_transformers."):
                yield Hook(rule="custom-pipeline", detail=f"modules.json loads {_short(value)}")
    if file_name == "model_index.json" and isinstance(document, Pairs):
        yield from _of_pipeline(document)


def _of_pair(key: str, value: object) -> Iterator[Hook]:
    match key:
        case "auto_map":
            yield from (Hook(rule="auto-map", detail=words) for words in _auto_map(value))
        case "custom_pipeline" | "custom_pipelines":
            yield Hook(rule="custom-pipeline", detail=f"{key}: {_short(value)}")
        case "_target_":
            yield Hook(rule="custom-pipeline", detail=f"_target_: {_short(value)} is called when the file is read")
        case "trust_remote_code" if value is True:
            yield Hook(rule="trust-remote-code", detail="trust_remote_code: true")
        case "parent_library" if isinstance(value, str) and not value.startswith(_LIBRARIES):
            yield Hook(rule="custom-pipeline", detail=f"parent_library: {_short(value)}")
        case _:
            pass


def _of_pipeline(document: Pairs) -> Iterator[Hook]:
    """A diffusers pipeline names its parts as [library, class]; any other module is the repository's own."""
    for key, value in document:
        if not isinstance(value, list):
            continue
        known = len(value) == 2 and (value[0] is None or str(value[0]).startswith(_LIBRARIES))
        if key == "_class_name" or not known:
            yield Hook(rule="custom-pipeline", detail=f"model_index.json: {_short(key)} is {_short(value)}")


def templates(document: object) -> Iterator[tuple[str, str]]:
    """(name, text) of every chat template: a text, a list of named texts or an object of them."""
    for key, value in _pairs(document):
        if key != "chat_template":
            continue
        if isinstance(value, str):
            yield key, value
        elif isinstance(value, Pairs):
            yield from ((f"{key}.{_short(name)}", text) for name, text in value if isinstance(text, str))
        elif isinstance(value, list):
            for number, item in enumerate(value):
                texts = [text for name, text in item if name == "template"] if isinstance(item, Pairs) else [item]
                yield from ((f"{key}[{number}]", text) for text in texts if isinstance(text, str))


def notebook_cells(document: object) -> Iterator[tuple[int, str]]:
    """(number from 1, source) of the code cells when the document is a notebook of format 4 or 3."""
    if not isinstance(document, Pairs) or not any(key == "nbformat" for key, _ in document):
        return
    number = 0
    for key, value in _pairs(document):
        if key != "cells" or not isinstance(value, list):
            continue
        for cell in value:
            number += 1
            if isinstance(cell, Pairs) and ("cell_type", "code") in cell:
                for name, source in cell:
                    if name in ("source", "input"):
                        yield number, "".join(map(str, source)) if isinstance(source, list) else str(source)


def _pairs(document: object) -> Iterator[tuple[str, object]]:
    waiting = [document]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Pairs):
            yield from item
            waiting += [value for _, value in item]
        elif isinstance(item, list):
            waiting += item


def _auto_map(value: object) -> Iterator[str]:
    targets = [(key, target) for key, target in value] if isinstance(value, Pairs) else [("auto_map", value)]
    for key, target in targets:
        for one in target if isinstance(target, list) else [target]:
            if one is not None:
                where = "another repository" if "--" in str(one) else "this repository"
                yield f"auto_map: {_short(key)} loads {_short(one)} from {where}"


def _short(value: object) -> str:
    return ascii(value)[1:-1][:120] if isinstance(value, str) else ascii(value)[:120]
