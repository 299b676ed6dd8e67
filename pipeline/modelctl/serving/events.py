"""Reads one streamed answer (server-sent events of the OpenAI API) into an `Answer`.

A stream is believed only as far as it goes: an empty role delta is no token, an `error` event is a failure though the
status was 200, and an answer without a finish reason, usage or the final `[DONE]` is incomplete.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from modelctl.serving.answers import Answer, FailureKind, RequestRow, repeats_one_token

_MAX_DETAIL = 300
_MAX_EVENT_BYTES = 8 << 20


class StreamReader:
    """Collects what one request's stream says; feed it bytes with the time they were read."""

    def __init__(self, *, stream: int, serial: int, intended_s: float | None, sent_s: float) -> None:
        self._stream = stream
        self._serial = serial
        self._sent_s = sent_s
        self._intended_s = sent_s if intended_s is None else intended_s
        self.status: int | None = None
        self._pending = b""
        self._times: list[float] = []
        self._text: list[str] = []
        self._first_byte_s: float | None = None
        self._finish_reason: str | None = None
        self._usage: tuple[int, int] | None = None
        self._done = False
        self._failure: tuple[FailureKind, str] | None = None

    def fail(self, kind: FailureKind, detail: str) -> None:
        """Note why the request failed; the first reason stays."""
        if self._failure is None:
            self._failure = (kind, _printable(detail))

    def refuse(self, status: int, body: str) -> None:
        """Note an answer that was no stream."""
        self.status = status
        self.fail("http", f"HTTP {status}: {_error_message(body)}")

    def feed(self, chunk: bytes, *, at_s: float) -> None:
        """Take bytes as they were read at `at_s`."""
        if self._first_byte_s is None:
            self._first_byte_s = at_s
        self._pending += chunk
        *lines, self._pending = self._pending.split(b"\n")
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
            event = json.loads(data)
        except ValueError:
            event = None
        if not isinstance(event, dict):
            self.fail("stream-error", f"an event that is no JSON object: {data[:80]!r}")
            return
        if event.get("error") is not None:
            self.fail("stream-error", f"error inside a stream with status 200: {_message(event['error'])}")
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
        texts = [part.get(key) for key in ("text", "content", "reasoning", "reasoning_content")]
        words = [text for text in texts if isinstance(text, str) and text]
        if words or part.get("tool_calls"):
            self._times.append(at_s)
            self._text += words

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
        row = RequestRow(
            stream=self._stream,
            serial=self._serial,
            intended_s=self._intended_s,
            sent_s=self._sent_s,
            first_byte_s=self._first_byte_s,
            first_token_s=self._times[0] if self._times else None,
            last_token_s=self._times[-1] if self._times else None,
            done_s=done_s,
            status=self.status,
            finish_reason=self._finish_reason,
            prompt_tokens=self._usage[0] if self._usage else None,
            completion_tokens=tokens,
            chunks=len(self._times),
            longest_gap_s=max(gaps, default=0.0),
            repeats_one_token=self._failure is None and tokens is not None and repeats_one_token(text, tokens),
            failure=self._failure[0] if self._failure else None,
            detail=self._failure[1] if self._failure else None,
        )
        return Answer(row=row, text=text, gaps_s=gaps)


def _error_message(body: str) -> str:
    try:
        parsed = json.loads(body)
    except ValueError:
        return body
    return _message(parsed.get("error", parsed) if isinstance(parsed, dict) else parsed)


def _message(error: object) -> str:
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return str(error["message"])
    return json.dumps(error)


def _printable(text: str) -> str:
    shown = "".join(character if character.isprintable() else " " for character in text)
    return shown if len(shown) <= _MAX_DETAIL else shown[: _MAX_DETAIL - 1] + "…"
