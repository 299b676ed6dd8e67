"""What one model answered, and how it is kept while a long evaluation goes on: a line of JSON for each portion.

The child has loaded a hostile model, so what it says is read as strictly as a file from outside.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from modelctl.errors import CannotDecideError
from modelctl.files import write_whole


@dataclass(frozen=True, kw_only=True)
class Document:
    """One answered document."""

    task: str
    doc_id: int
    subject: str
    doc_hash: str
    prompt_hash: str
    target_hash: str
    choices: int
    target: int | str
    """The right choice: its place, or its text where the task has it so."""
    chosen: int
    """The place of the choice that the model finds likeliest."""
    correct: bool


@dataclass(frozen=True, kw_only=True)
class TextScore:
    """How many bits the model needs to write one text of so many bytes (UTF-8)."""

    name: str
    size_bytes: int
    bits: float


@dataclass(frozen=True, kw_only=True)
class Part:
    """What was answered together."""

    part: int
    documents: tuple[Document, ...]
    texts: tuple[TextScore, ...]


_PART: TypeAdapter[Part] = TypeAdapter(Part)


class Kept:
    """The parts of one evaluation that are done, in memory and in a file that survives the run."""

    def __init__(self, path: Path) -> None:
        self.parts: dict[int, Part] = {}
        self._path = path
        for line in path.read_bytes().splitlines() if path.is_file() else ():
            try:
                part = _PART.validate_json(line)
            except ValidationError:
                break  # cut off when the run was killed
            self.parts[part.part] = part
        if self.parts:
            write_whole(path, "".join(_line(part) for part in self.parts.values()))

    @property
    def documents(self) -> int:
        """How many documents the kept parts hold."""
        return sum(len(part.documents) for part in self.parts.values())

    def hear(self, message: Mapping[str, Any]) -> None:
        """Keep the part that a message of the child brings, if it brings one. Raises `CannotDecideError`."""
        if "part" not in message:
            return
        try:
            part = _PART.validate_python(message)
        except ValidationError as error:
            raise CannotDecideError(f"the evaluation's answer is malformed: {error}") from error
        self.parts[part.part] = part
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(_line(part))

    def whole(self, answered: Any) -> tuple[tuple[Document, ...], tuple[TextScore, ...]]:
        """All documents and texts, once the child has said how many there are. Raises `CannotDecideError` when some
        are not there."""
        parts = [self.parts[number] for number in sorted(self.parts)]
        documents = tuple(document for part in parts for document in part.documents)
        if not documents:
            raise CannotDecideError("the tasks hold no documents", remedy="check quantization.tasks in the policy")
        if answered != {"parts": len(parts), "documents": len(documents)}:
            raise CannotDecideError(
                f"the evaluation answered {len(documents)} documents and ended with {answered!r:.100}",
                remedy=f"run the same command again; if it persists, delete {self._path}",
            )
        return documents, tuple(text for part in parts for text in part.texts)

    def forget(self) -> None:
        """Remove the file: the whole result is kept elsewhere."""
        self._path.unlink(missing_ok=True)


def _line(part: Part) -> str:
    return json.dumps(asdict(part)) + "\n"
