"""The texts whose bits per byte are measured beside the questions: how many bits a model needs to write them.

They were written for modelctl, in several languages, as code and as figures, and are no part of the calibration text. A
rise shows damage that easy questions miss; being a mean over tokens, it says little about single answers.
"""

from __future__ import annotations

import functools
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

SHIPPED_TEXTS = Path(__file__).parent / "data" / "reading.txt"
_HEADING = re.compile(r"^\[([a-z-]+)\]\n", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Text:
    """One text and what it is written in."""

    name: str
    text: str


@functools.cache
def shipped_texts() -> tuple[Text, ...]:
    """The texts that come with the program."""
    parts = _HEADING.split(SHIPPED_TEXTS.read_text(encoding="utf-8"))[1:]
    return tuple(Text(name=name, text=text.strip()) for name, text in zip(parts[::2], parts[1::2], strict=True))


def digest() -> str:
    """sha256 of the file that holds them, in hex."""
    return hashlib.sha256(SHIPPED_TEXTS.read_bytes()).hexdigest()
