"""Reads one streamed answer (server-sent events of the OpenAI API) into an `Answer`.

A stream is believed only as far as it goes: an empty role delta is no token, an `error` event is a failure though the
status was 200, and an answer without a finish reason, usage or the final `[DONE]` is incomplete.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from modelctl.serving.answers import Answer, repeats_one_token
from modelctl.serving.reader import Reader, message

_MAX_EVENT_BYTES = 8 << 20
_WORDS = ("text", "content", "reasoning", "reasoning_content")


class StreamReader(Reader):
    """Collects what one request's stream says; feed it bytes with the time they were read."""

    def __init__(self, **about: Any) -> None:
        super().__init__(**about)
        self._parse = _parser()
        self._pending = b""
        self._times: list[float] = []
        self._text: list[str] = []
        self._finish_reason: str | None = None
        self._usage: tuple[int, int] | None = None
        self._done = False

    def feed(self, chunk: bytes, at_s: float) -> None:
        """Take bytes as they were read at `at_s`."""
        if self._first_byte_s is None:
            self._first_byte_s = at_s
        self.last_read_s = at_s
        *lines, self._pending = (self._pending + chunk if self._pending else chunk).split(b"\n")
        if len(self._pending) > _MAX_EVENT_BYTES:
            self.fail("stream-error", f"one event of more than {_MAX_EVENT_BYTES} bytes")
            self._pending = b""
        for line in lines:
            if line.startswith(b"data:"):
                self._event(line[5:].strip(), at_s)

    def _event(self, data: bytes, at_s: float) -> None:
        if data == b"[DONE]":
            self._done = True
            return
        try:
            event = self._parse(data)
        except ValueError:
            event = None
        if not isinstance(event, dict):
            self.fail("stream-error", f"an event that is no JSON object: {data[:80]!r}")
            return
        if event.get("error") is not None:
            self.fail("stream-error", f"error inside a stream with status 200: {message(event['error'])}")
            return
        usage = event.get("usage")
        if isinstance(usage, dict):
            prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
            if isinstance(prompt, int) and isinstance(completion, int):
                self._usage = (prompt, completion)
        choices = event.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            self._choice(choices[0], at_s)

    def _choice(self, choice: Mapping[str, object], at_s: float) -> None:
        reason = choice.get("finish_reason")
        if isinstance(reason, str):
            self._finish_reason = reason
        delta = choice.get("delta")
        part = delta if isinstance(delta, dict) else choice
        found = False
        for key in _WORDS:
            text = part.get(key)
            if text and isinstance(text, str):
                self._text.append(text)
                found = True
        if found or part.get("tool_calls"):
            self._times.append(at_s)

    def answer(self, *, done_s: float) -> Answer:
        """The finished answer; every missing part of a complete one is a failure."""
        tokens = self._usage[1] if self._usage else None
        if not self._done or self._finish_reason is None or tokens is None:
            missing = [
                word
                for word, there in (
                    ("[DONE]", self._done),
                    ("finish_reason", self._finish_reason is not None),
                    ("usage", tokens is not None),
                )
                if not there
            ]
            self.fail("incomplete", f"the stream ended without {' and '.join(missing)}")
        elif tokens < 1:
            self.fail("no-tokens", "the answer has no token")
        gaps = tuple(later - earlier for earlier, later in zip(self._times, self._times[1:], strict=False))
        text = "".join(self._text)
        row = self._row(
            done_s=done_s,
            first_token_s=self._times[0] if self._times else None,
            last_token_s=self._times[-1] if self._times else None,
            finish_reason=self._finish_reason,
            prompt_tokens=self._usage[0] if self._usage else None,
            completion_tokens=tokens,
            chunks=len(self._times),
            longest_gap_s=max(gaps, default=0.0),
            repeats_one_token=self._failure is None and tokens is not None and repeats_one_token(text, tokens),
        )
        return Answer(row=row, text=text, gaps_s=gaps)


def _parser() -> Callable[[bytes], object]:
    """pydantic's parser takes half the time of the standard one; a load spends a good part of its time in it."""
    from pydantic_core import from_json

    return from_json
