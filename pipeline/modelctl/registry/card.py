"""The extract of a model card that git keeps of a release: title, licence, base models and so on.

The card is the text of a model that was hostile until a moment ago: it is read as strictly as every document, what is
kept is bounded in number and length and printable, and nothing of it is ever a command, a path or a template.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from modelctl.documents import Document, write_yaml
from modelctl.errors import InputError
from modelctl.model.card import read_card
from modelctl.model.tree import Tree

CARD_FILE = "card.yaml"
MAX_TEXT = 200
MAX_ITEMS = 50
_HEADING = re.compile(r"^#[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
Texts = tuple[str, ...]


class Card(Document):
    """What the card says; nothing in it was checked by anyone."""

    api_version: Annotated[Literal["modelctl.dev/v1"], Field(alias="apiVersion")] = "modelctl.dev/v1"
    kind: Literal["ModelCard"] = "ModelCard"
    title: str | None = None
    licenses: Texts = ()
    """As written; `other` stands beside the name that the card gives it."""
    base_models: Texts = ()
    datasets: Texts = ()
    languages: Texts = ()
    tags: Texts = ()
    task: str | None = None
    library: str | None = None
    problem: str | None = None
    """Why the card could not be read."""

    def to_yaml(self) -> str:
        """The file's text: keys in the order of the class, without what is empty."""
        values = self.model_dump(mode="json", by_alias=True)
        return write_yaml({key: value for key, value in values.items() if value not in (None, [])})


def extract_card(tree: Tree) -> Card:
    """The extract of a tree's README.md; an empty one without a card, and one with a `problem` for a broken card."""
    try:
        matter, body = read_card(tree)
    except (InputError, OSError) as error:
        return Card(problem=_text(str(error)))
    return card_of(matter, body)


def card_of(matter: Mapping[object, object], body: str) -> Card:
    """The extract of a card's front matter and text."""
    heading = _HEADING.search(_FENCE.sub("", body))
    title = _text(heading[1]) if heading else None
    return Card(
        title=title or _one(matter, "model_name"),
        licenses=(*_many(matter, "license"), *_many(matter, "license_name")),
        base_models=_many(matter, "base_model"),
        datasets=_many(matter, "datasets"),
        languages=_many(matter, "language"),
        tags=_many(matter, "tags"),
        task=_one(matter, "pipeline_tag"),
        library=_one(matter, "library_name"),
    )


def _one(matter: Mapping[object, object], key: str) -> str | None:
    return next(iter(_many(matter, key)), None)


def _many(matter: Mapping[object, object], key: str) -> Texts:
    value = matter.get(key)
    values = value if isinstance(value, list) else [value]
    texts = [_text(item) for item in values[:MAX_ITEMS] if isinstance(item, str | int | float | bool)]
    return tuple(dict.fromkeys(text for text in texts if text))


def _text(value: object) -> str | None:
    """Printable text of one line, cut at 200 characters; what hides or turns text around is taken out."""
    words = " ".join("".join(c if c.isprintable() else " " for c in str(value)).split())
    return (words if len(words) <= MAX_TEXT else words[: MAX_TEXT - 1] + "…") or None
