"""YAML documents that people write: read strictly, and refused with the file, the key, what was found and what is
wanted.

Duplicate keys, unknown keys (with the nearest known one), wrong types, aliases, deep nesting and files over 1 MiB are
errors. Every document class derives from `Document`.
"""

from __future__ import annotations

import difflib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from modelctl.errors import InputError

MAX_DOCUMENT_BYTES = 1 << 20
MAX_NESTING = 32
"""Levels of mappings and lists in one document; the parser's time grows with a power of them."""


class Document(BaseModel):
    """A part of a document: immutable, no unknown keys."""

    # Built when the first one is read: most commands read few of the kinds that they import.
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False, defer_build=True)


DocumentT = TypeVar("DocumentT", bound=Document)


def parse_yaml(text: str, *, origin: str) -> Any:
    """The plain value of one YAML document; `origin` names it in errors.

    Raises `InputError`, also for what a document of a few KiB could occupy the parser with for hours: nesting beyond
    `MAX_NESTING` levels, and aliases, which merged into each other multiply.
    """
    from ruamel.yaml import YAML, events
    from ruamel.yaml.error import MarkedYAMLError, YAMLError
    from ruamel.yaml.parser import Parser

    class BoundedParser(Parser):
        depth = 0

        def get_event(self) -> Any:
            event = super().get_event()
            if isinstance(event, events.AliasEvent):
                raise MarkedYAMLError(
                    problem=f"an alias (*{event.anchor}), where values are to be written out",
                    problem_mark=event.start_mark,
                )
            if isinstance(event, events.CollectionStartEvent):
                self.depth += 1
            elif isinstance(event, events.CollectionEndEvent):
                self.depth -= 1
            if self.depth > MAX_NESTING:
                raise MarkedYAMLError(
                    problem=f"nested more than {MAX_NESTING} levels deep", problem_mark=event.start_mark
                )
            return event

    if len(text) > MAX_DOCUMENT_BYTES:
        raise InputError(f"{origin}: larger than {MAX_DOCUMENT_BYTES} bytes", remedy="is this the right file?")
    yaml = YAML(typ="safe", pure=True)
    yaml.Parser = BoundedParser
    try:
        return yaml.load(text)
    except MarkedYAMLError as error:
        where = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        problem = (error.problem or "not YAML").splitlines()[0]
        raise InputError(f"{origin}{where}: {problem}", remedy="mend the YAML at that line") from error
    except (YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{origin}: not YAML: {error}", remedy="mend the file") from error


def write_yaml(value: object) -> str:
    """A plain value as YAML: block style, keys in their order, long texts on one line."""
    from ruamel.yaml import YAML

    writer = YAML()
    writer.default_flow_style = False
    writer.width = 4096
    stream = io.StringIO()
    writer.dump(value, stream)
    return stream.getvalue()


def read_text(path: Path) -> str:
    """The text of a small document. Raises `InputError` when it is missing, too large, a folder or not UTF-8."""
    try:
        if path.stat().st_size > MAX_DOCUMENT_BYTES:
            raise InputError(f"{path}: larger than {MAX_DOCUMENT_BYTES} bytes", remedy="is this the right file?")
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file", remedy=_similar_files(path)) from error
    except IsADirectoryError as error:
        raise InputError(f"{path}: a folder where a file is wanted") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start}", remedy="save the file as UTF-8") from error
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error


def load_document(path: Path, kind: type[DocumentT]) -> DocumentT:
    """Read and validate a document file. Raises `InputError`."""
    return validate(parse_yaml(read_text(path), origin=str(path)), kind, origin=str(path))


def validate(value: object, kind: type[DocumentT], *, origin: str) -> DocumentT:
    """Validate a plain value against a document class. Raises `InputError` that lists every problem."""
    if not isinstance(value, dict):
        found = "an empty file" if value is None else f"a {type(value).__name__}"
        raise InputError(f"{origin}: found {found}, wanted a mapping of keys to values")
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        lines = [_word(problem, kind) for problem in error.errors(include_url=False)]
        raise InputError(
            f"{origin}: " + "; ".join(lines), remedy=f"mend {origin} and run the same command again"
        ) from error


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The known word closest to a misspelt one, or None."""
    found = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return found[0] if found else None


def _word(problem: Any, kind: type[Document]) -> str:
    location = problem["loc"]
    where = ".".join(str(part) for part in location) or "(top)"
    if problem["type"] == "extra_forbidden":
        known = _known_keys(kind, location[:-1])
        close = nearest(str(location[-1]), known)
        hint = f", did you mean '{close}'?" if close else f"; known keys: {', '.join(known)}" if known else ""
        return f"unknown key '{where}'{hint}"
    if problem["type"] == "missing":
        return f"key '{where}' is missing"
    return f"'{where}': found {problem['input']!r}: {problem['msg'][:1].lower()}{problem['msg'][1:]}"


def _known_keys(kind: type[Document], location: tuple[str | int, ...]) -> list[str]:
    current: type[Document] | None = kind
    for part in location:
        if current is None:
            return []
        for name, field in current.model_fields.items():
            if part in (name, field.alias):
                current = _document_class(field.annotation)
                break
    if current is None:
        return []
    return sorted(field.alias or name for name, field in current.model_fields.items())


def _document_class(annotation: object) -> type[Document] | None:
    if isinstance(annotation, type) and issubclass(annotation, Document):
        return annotation
    for argument in get_args(annotation):
        found = _document_class(argument)
        if found is not None:
            return found
    return None


def _similar_files(path: Path) -> str | None:
    if not path.parent.is_dir():
        return f"the folder {path.parent} does not exist either"
    close = nearest(path.name, [item.name for item in path.parent.iterdir()])
    return f"did you mean {path.parent / close}?" if close else None
