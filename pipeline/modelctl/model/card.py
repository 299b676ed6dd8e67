"""The licence that a model card names: the front matter of README.md, as the Hub reads it.

`license` is one identifier or several; `other` (or none) with `license_name` is that name. The card is data of a
hostile model: it is read as strictly as every document, within the same bounds.
"""

from __future__ import annotations

import re

from modelctl.documents import MAX_DOCUMENT_BYTES, parse_yaml
from modelctl.errors import InputError
from modelctl.model.tree import Tree

CARD = "README.md"
_FRONT_MATTER = re.compile(r"\A(?:\ufeff)?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)


def licenses_of(tree: Tree) -> tuple[str, ...]:
    """The licences that the card names, in lower case; none without a card or without the key.

    Raises `InputError` for a card that can't be understood.
    """
    matter, _ = read_card(tree)
    named = _texts(matter, "license")
    names = _texts(matter, "license_name")
    if names and set(named) <= {"other"}:
        return names
    return named


def read_card(tree: Tree) -> tuple[dict[object, object], str]:
    """The card's front matter as plain values, and the text after it; ({}, "") without a card.

    At most 1 MiB of the card is read. Raises `InputError` for a card that can't be understood.
    """
    if not any(entry.path == CARD for entry in tree.files):
        return {}, ""
    with tree.location(CARD).open("rb") as stream:
        return parse_card(stream.read(MAX_DOCUMENT_BYTES))


def parse_card(content: bytes) -> tuple[dict[object, object], str]:
    """The same of a card's bytes, of which no more than the first 1 MiB are given. Raises `InputError`."""
    try:
        text = content.decode("utf-8", errors="strict" if len(content) < MAX_DOCUMENT_BYTES else "ignore")
    except UnicodeDecodeError as error:
        raise InputError(f"{CARD}: not UTF-8 at byte {error.start}") from error
    found = _FRONT_MATTER.match(text)
    if found is None:
        return {}, text
    matter = parse_yaml(found[1], origin=f"{CARD} (front matter)")
    if matter is None:
        return {}, text[found.end() :]
    if not isinstance(matter, dict):
        raise InputError(f"{CARD}: the front matter is a {type(matter).__name__}, wanted a mapping")
    return matter, text[found.end() :]


def _texts(matter: dict[object, object], key: str) -> tuple[str, ...]:
    value = matter.get(key)
    values = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(item, str) for item in values):
        raise InputError(f"{CARD}: {key}: found {value!r}, wanted a licence's identifier")
    return tuple(str(item).strip().lower() for item in values if str(item).strip())
