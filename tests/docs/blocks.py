"""The shell blocks of the documents, and what may not be run of them and why.

`<!-- not run: REASON -->` on the line before a block leaves it out; `<!-- not run (WORDS, WORDS): REASON -->` leaves
out its lines that begin so. Nothing else is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(
    r"^(?P<indent> *)(?:<!-- not run(?: \((?P<words>[^)]*)\))?: (?P<reason>[^\n]*?) -->\n+(?P=indent))?"
    r"```(?:sh|bash|console)\n(?P<body>.*?)^(?P=indent)```",
    re.MULTILINE | re.DOTALL,
)
"""A block, also one below a point of a list."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """One block of a document."""

    document: str
    number: int
    lines: tuple[str, ...]
    body: str
    reason: str | None
    """Why it, or what of it, is not run."""
    words: tuple[str, ...]
    """Beginnings of the lines that the reason is for; none when it is for all."""

    @property
    def id(self) -> str:
        return f"{self.document}:{self.number}"

    def left_out(self, line: str) -> bool:
        """Whether the document says that this line is not run."""
        return self.reason is not None and (not self.words or line.startswith(self.words))

    @property
    def run(self) -> tuple[str, ...]:
        """The lines to run."""
        return tuple(line for line in self.lines if not self.left_out(line))

    @property
    def script(self) -> tuple[str, ...]:
        """The block as it stands, unless all of it is left out."""
        return () if self.reason is not None and not self.words else tuple(self.body.splitlines())

    @property
    def not_run(self) -> tuple[str, ...]:
        """The lines that are left out."""
        return tuple(line for line in self.lines if self.left_out(line))


def blocks(path: Path) -> Iterator[Block]:
    """The shell blocks of one document, in order."""
    text = path.read_text(encoding="utf-8")
    for number, found in enumerate(BLOCK.finditer(text), start=1):
        joined = found["body"].replace("\\\n", " ")
        words = tuple(word.strip() for word in (found["words"] or "").split(",") if word.strip())
        yield Block(
            document=str(path.relative_to(PROJECT)),
            number=number,
            body=found["body"],
            lines=tuple(line.strip().removeprefix("$ ") for line in joined.splitlines() if line.strip()),
            reason=found["reason"],
            words=words,
        )


def documents() -> list[Path]:
    """Every page that a person types from."""
    return [
        *(PROJECT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
        *sorted((PROJECT / "docs").rglob("*.md")),
        *sorted((PROJECT / "registry").glob("*.md")),
    ]
