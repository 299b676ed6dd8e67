"""Reads one answer of `/v1/embeddings` into a row: latency and tokens, since there is no stream to time."""

from __future__ import annotations

import math
from typing import Any

from modelctl.serving.answers import Answer
from modelctl.serving.reader import Reader, error_message


class EmbeddingReader(Reader):
    """Collects what one request brought."""

    def __init__(self, **about: Any) -> None:
        super().__init__(**about)
        self._body = bytearray()

    def feed(self, chunk: bytes, at_s: float) -> None:
        """Take bytes as they were read at `at_s`."""
        if self._first_byte_s is None:
            self._first_byte_s = at_s
        self.last_read_s = at_s
        self._body += chunk

    def answer(self, *, done_s: float) -> Answer:
        """The finished answer; a vector that is missing, empty or not all finite numbers is a failure."""
        tokens = self._judge() if self._failure is None else None
        row = self._row(
            done_s=done_s, first_token_s=None, last_token_s=None, finish_reason=None, prompt_tokens=tokens,
            completion_tokens=None, chunks=0, longest_gap_s=0.0, repeats_one_token=False,
        )  # fmt: skip
        return Answer(row=row, text="", gaps_s=())

    def _judge(self) -> int | None:
        from pydantic_core import from_json

        try:
            body = from_json(bytes(self._body))
        except ValueError:
            self.fail("incomplete", f"not JSON: {bytes(self._body[:80])!r}")
            return None
        if not isinstance(body, dict) or body.get("error") is not None:
            self.fail(
                "stream-error",
                f"error in an answer with status 200: {error_message(self._body.decode('utf-8', 'replace'))}",
            )
            return None
        data = body.get("data")
        first = data[0] if isinstance(data, list) and data else None
        vector = first.get("embedding") if isinstance(first, dict) else None
        usage = body.get("usage")
        tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        if not isinstance(vector, list) or not vector:
            self.fail("no-tokens", "the answer has no vector")
        elif not all(isinstance(value, (int, float)) and math.isfinite(value) for value in vector):
            self.fail("incomplete", "the vector holds something that is no finite number")
        elif not any(vector):
            self.fail("incomplete", "the vector is all zeros")
        elif not isinstance(tokens, int) or tokens < 1:
            self.fail("incomplete", "the answer came without usage")
        return tokens if isinstance(tokens, int) else None
