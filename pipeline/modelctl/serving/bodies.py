"""What is sent to each of the engine's three interfaces: completions, chat (with a small picture of ours or without)
and embeddings.

Everything is greedy, streamed where there is a stream, and asks for usage, since tokens are counted by the engine.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from typing import Literal

Api = Literal["completions", "chat", "embeddings"]
PATHS: dict[Api, str] = {
    "completions": "/v1/completions",
    "chat": "/v1/chat/completions",
    "embeddings": "/v1/embeddings",
}
_IMAGE_PIXELS = 56
_IMAGE_CELLS = 4
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def request_body(
    api: Api,
    prompt: str | Sequence[int],
    *,
    model: str,
    answer_tokens: int,
    exact_answer: bool,
    image_serial: int | None = None,
) -> dict[str, object]:
    """The JSON body of one request.

    A chat takes a text, the others take token ids as well. `image_serial` puts the picture of that number before a
    chat's text. `exact_answer` asks for `answer_tokens` tokens whatever the model says (vLLM's `ignore_eos`).
    """
    content = prompt if isinstance(prompt, str) else list(prompt)
    if api == "embeddings":
        return {"model": model, "input": content, "encoding_format": "float"}
    body: dict[str, object] = {
        "model": model,
        "max_tokens": answer_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if exact_answer:
        body["ignore_eos"] = True
    if api == "completions":
        return body | {"prompt": content}
    parts: list[dict[str, object]] = [{"type": "text", "text": content}]
    if image_serial is not None:
        encoded = base64.b64encode(png(image_serial)).decode()
        parts.insert(0, {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{encoded}"}})
    said = parts if image_serial is not None else content
    return body | {"messages": [{"role": "user", "content": said}]}


def png(serial: int) -> bytes:
    """A picture of 56 by 56 pixels, four by four coloured squares that spell `serial`: no two are alike, so that no
    engine answers from its cache of pictures. The format is RFC 2083: signature, IHDR, IDAT, IEND."""
    cell = _IMAGE_PIXELS // _IMAGE_CELLS
    colours = [_colour(serial, number) for number in range(_IMAGE_CELLS * _IMAGE_CELLS)]
    lines = []
    for row in range(_IMAGE_PIXELS):
        first = row // cell * _IMAGE_CELLS
        lines.append(b"\0" + b"".join(colour * cell for colour in colours[first : first + _IMAGE_CELLS]))
    header = struct.pack(">IIBBBBB", _IMAGE_PIXELS, _IMAGE_PIXELS, 8, 2, 0, 0, 0)  # 8 bits, RGB, no interlacing
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(b"".join(lines))), (b"IEND", b""))
    return _PNG_SIGNATURE + b"".join(_part(kind, content) for kind, content in parts)


def _colour(serial: int, number: int) -> bytes:
    """Three bytes; squares 0 to 10 hold three bits of `serial` each, one a channel."""
    bits = (serial >> (3 * number)) & 7
    return bytes((64 + 128 * (bits >> channel & 1) + 5 * number % 60) for channel in range(3))


def _part(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
