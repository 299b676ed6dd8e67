"""What the readers of streams and of embeddings share: times of one request, its first failure, and its row."""

from __future__ import annotations

import json
from typing import Any

from modelctl.serving.answers import FailureKind, RequestRow

_MAX_DETAIL = 300
_MASK = "********"


class Reader:
    """One request's answer as it comes; times are those of the client's clock."""

    def __init__(
        self, *, stream: int, serial: int, intended_s: float | None, sent_s: float, hidden: str | None = None
    ) -> None:
        """`hidden` is taken out of everything that the engine says: the key, should it quote it."""
        self.status: int | None = None
        self.last_read_s = sent_s
        self._about = {
            "stream": stream,
            "serial": serial,
            "intended_s": sent_s if intended_s is None else intended_s,
            "sent_s": sent_s,
        }
        self._hidden = hidden
        self._first_byte_s: float | None = None
        self._failure: tuple[FailureKind, str] | None = None

    def fail(self, kind: FailureKind, detail: str) -> None:
        """Note why the request failed; the first reason stays."""
        if self._failure is None:
            self._failure = (kind, _printable(masked(detail, self._hidden)))

    def refuse(self, status: int, body: str) -> None:
        """Note an answer that is no 200."""
        self.status = status
        self.fail("http", f"HTTP {status}: {error_message(body)}")

    def _row(self, *, done_s: float, **figures: Any) -> RequestRow:
        kind, detail = self._failure or (None, None)
        return RequestRow(
            **self._about,  # type: ignore[arg-type] # two counts and two times, named above
            first_byte_s=self._first_byte_s,
            done_s=done_s,
            status=self.status,
            failure=kind,
            detail=detail,
            **figures,
        )


def masked(text: str, hidden: str | None) -> str:
    """Without the key, should there be one."""
    return text.replace(hidden, _MASK) if hidden else text


def error_message(body: str) -> str:
    """The message of an OpenAI error body, or the body itself when it is something else."""
    try:
        parsed = json.loads(body)
    except ValueError:
        return body
    return message(parsed.get("error", parsed) if isinstance(parsed, dict) else parsed)


def message(error: object) -> str:
    """The message of an OpenAI error object."""
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return str(error["message"])
    return json.dumps(error)


def _printable(text: str) -> str:
    shown = "".join(character if character.isprintable() else " " for character in text)
    return shown if len(shown) <= _MAX_DETAIL else shown[: _MAX_DETAIL - 1] + "…"
