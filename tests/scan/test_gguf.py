"""Templates are read from GGUF metadata in bounded memory."""

from __future__ import annotations

import io
import struct

import pytest

from modelctl.scan.gguf import chat_templates


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(*entries: bytes, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, 0, len(entries)) + b"".join(entries)


TOKENS = text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b")
SCORES = text("tokenizer.ggml.scores") + struct.pack("<IIQ", 9, 6, 2) + bytes(8)
COUNT = text("llama.block_count") + struct.pack("<II", 4, 30)
TEMPLATE = text("tokenizer.chat_template") + struct.pack("<I", 8) + text("{{ x.__globals__ }}")


def test_templates_behind_other_metadata_are_found() -> None:
    named = text("tokenizer.chat_template.tool_use") + struct.pack("<I", 8) + text("B")
    found = list(chat_templates(io.BytesIO(gguf(TOKENS, SCORES, COUNT, TEMPLATE, named))))
    assert found == [("tokenizer.chat_template", "{{ x.__globals__ }}"), ("tokenizer.chat_template.tool_use", "B")]


@pytest.mark.parametrize(
    "content",
    [
        b"GGUF",
        gguf(version=9),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60),
        gguf(TOKENS)[:-1],
        gguf(text("x") + struct.pack("<IIQ", 9, 8, 2**60)),
        gguf(text("x") + struct.pack("<IIQ", 9, 9, 1) + struct.pack("<IQ", 9, 1) * 9),
        gguf(text("chat_template") + struct.pack("<IQ", 8, 2**40)),
        gguf(text("x") + struct.pack("<I", 99)),
        gguf(text("x") + struct.pack("<IQ", 8, 2**63), COUNT),
        gguf(struct.pack("<Q", 2**40)),
    ],
)
def test_broken_metadata_is_an_error(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"GGUF|metadata|template"):
        list(chat_templates(io.BytesIO(content)))
