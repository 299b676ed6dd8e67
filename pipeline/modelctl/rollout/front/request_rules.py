"""What a request to the gateway may hold: a strict schema, and texts without characters that hide something.

This file is mounted into the gateway and runs there, so it needs the standard library alone. A request is refused with
a sentence that names the key, never with the user's text.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

ROLES = ("system", "developer", "user", "assistant", "tool")
MAX_MESSAGES, MAX_TOOLS, MAX_STOPS, MAX_STOP_CHARS, MAX_DEPTH = 512, 64, 4, 256, 16
OTHER_BYTES = 1 << 16
"""Of a request, beside its texts: tools and their schemas."""
_KEPT_CONTROLS = "\n\r\t"
_BIDIRECTIONAL = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Of Unicode's Bidi_Control: they show a text in another order than a model reads it."""
_FIRST_TAG, _LAST_TAG = 0xE0000, 0xE007F
"""Tag characters: letters that no screen shows and a model reads."""


class RefusedError(Exception):
    """A request that is not let through; its text is for the client."""


@dataclass(frozen=True)
class Limits:
    """How much one request may ask for."""

    prompt_chars: int
    """Characters of all messages together, or of the prompt."""
    answer_tokens: int
    """The most that `max_tokens` may say, and what it says where the client leaves it open."""
    choices: int = 1


def parse(raw: bytes, limits: Limits) -> Any:
    """The JSON of a request's bytes. Raises `RefusedError` for what is no JSON, too long, or says a key twice."""
    if len(raw) > 8 * limits.prompt_chars + OTHER_BYTES:  # a character takes up to six bytes as \\u1234, and quotes
        raise RefusedError(f"{len(raw)} bytes are too many for {limits.prompt_chars} characters")
    try:
        return json.loads(raw, object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise RefusedError("the request is not JSON") from None


def check(body: Any, limits: Limits, models: tuple[str, ...], *, chat: bool) -> None:
    """Hold a request's JSON against the schema of chat or of plain completions. Raises `RefusedError`."""
    if not isinstance(body, dict):
        raise RefusedError("the request is not a JSON object")
    known = _schema(limits, models) | (_CHAT if chat else _PLAIN)
    for key, value in body.items():
        if key not in known:
            raise RefusedError(f"unknown key '{str(key)[:64]}'; known are {', '.join(sorted(known))}")
        if value is not None:
            known[key](key, value)
    for key in ("model", "messages" if chat else "prompt"):
        if body.get(key) is None:
            raise RefusedError(f"the key '{key}' is missing")
    length = sum(len(text) for text in _texts(body))
    if length > limits.prompt_chars:
        raise RefusedError(f"{length} characters, of which {limits.prompt_chars} are let through")


def clean(body: dict[str, Any]) -> int:
    """Take control, bidirectional and tag characters out of every text of a checked request; how many there were."""
    removed = 0
    for holder, key in _places(body):
        text = holder[key]
        kept = "".join(letter for letter in text if not _hides(letter))
        removed += len(text) - len(kept)
        holder[key] = kept
    return removed


def bound(body: dict[str, Any], limits: Limits) -> None:
    """An answer that the client left open ends at the limit."""
    if body.get("max_tokens") is None and body.get("max_completion_tokens") is None:
        body["max_tokens"] = limits.answer_tokens


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise RefusedError("a key stands twice in the request")
    return found


def _no_number(word: str) -> Any:
    raise RefusedError(f"{word} is no number of JSON")


def _hides(letter: str) -> bool:
    if letter in _KEPT_CONTROLS:
        return False
    kind = unicodedata.category(letter)
    return kind in ("Cc", "Cs") or letter in _BIDIRECTIONAL or _FIRST_TAG <= ord(letter) <= _LAST_TAG


def _places(body: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Where texts stand: (mapping or list, key or index)."""
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        return [(body, "prompt")]
    if isinstance(prompt, list):
        return [(prompt, index) for index, text in enumerate(prompt) if isinstance(text, str)]
    found: list[tuple[Any, Any]] = []
    for message in body.get("messages") or ():
        content = message.get("content")
        if isinstance(content, str):
            found.append((message, "content"))
        elif isinstance(content, list):
            found += [(part, "text") for part in content]
    return found


def _texts(body: dict[str, Any]) -> list[str]:
    return [holder[key] for holder, key in _places(body)]


Rule = Callable[[str, Any], None]


def _schema(limits: Limits, models: tuple[str, ...]) -> dict[str, Rule]:
    """Keys of both kinds of request."""
    tokens = _whole(1, limits.answer_tokens)
    return {
        "model": _one_of(models),
        "stream": _boolean,
        "stream_options": _options,
        "max_tokens": tokens,
        "max_completion_tokens": tokens,
        "n": _whole(1, limits.choices),
        "temperature": _number(0, 2),
        "top_p": _number(0, 1),
        "presence_penalty": _number(-2, 2),
        "frequency_penalty": _number(-2, 2),
        "seed": _whole(-(2**63), 2**63 - 1),
        "stop": _stop,
        "user": _text(256),
        "logprobs": _boolean_or_few,
    }


def _boolean(key: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise RefusedError(f"'{key}' is not true or false")


def _boolean_or_few(key: str, value: Any) -> None:
    if not isinstance(value, bool):
        _whole(0, 20)(key, value)


def _whole(least: int, most: int) -> Rule:
    def rule(key: str, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise RefusedError(f"'{key}' is not a whole number from {least} to {most}")

    return rule


def _number(least: float, most: float) -> Rule:
    def rule(key: str, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise RefusedError(f"'{key}' is not a number from {least} to {most}")

    return rule


def _text(most: int) -> Rule:
    def rule(key: str, value: Any) -> None:
        if not isinstance(value, str) or len(value) > most:
            raise RefusedError(f"'{key}' is not a text of at most {most} characters")

    return rule


def _one_of(words: tuple[str, ...]) -> Rule:
    def rule(key: str, value: Any) -> None:
        if value not in words:
            raise RefusedError(f"'{key}' is none of {', '.join(words)}")

    return rule


def _options(key: str, value: Any) -> None:
    if not isinstance(value, dict) or set(value) - {"include_usage"}:
        raise RefusedError(f"'{key}' knows 'include_usage' alone")
    for inner in value.values():
        _boolean(f"{key}.include_usage", inner)


def _stop(key: str, value: Any) -> None:
    stops = value if isinstance(value, list) else [value]
    if len(stops) > MAX_STOPS:
        raise RefusedError(f"'{key}' has more than {MAX_STOPS} texts")
    for stop in stops:
        _text(MAX_STOP_CHARS)(key, stop)


def _prompt(key: str, value: Any) -> None:
    texts = value if isinstance(value, list) else [value]
    if len(texts) != 1 or not isinstance(texts[0], str):
        raise RefusedError(f"'{key}' is not one text")


def _messages(key: str, value: Any) -> None:
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_MESSAGES:
        raise RefusedError(f"'{key}' is not a list of 1 to {MAX_MESSAGES} messages")
    for index, message in enumerate(value):
        _message(f"{key}[{index}]", message)


def _message(where: str, message: Any) -> None:
    known = {"role", "content", "name", "tool_calls", "tool_call_id"}
    if not isinstance(message, dict) or set(message) - known:
        raise RefusedError(f"'{where}' is not an object with the keys {', '.join(sorted(known))}")
    _one_of(ROLES)(f"{where}.role", message.get("role"))
    content = message.get("content")
    if content is None and message.get("tool_calls"):
        content = ""
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    for part in parts:
        if not isinstance(part, dict) or set(part) != {"type", "text"} or part["type"] != "text":
            raise RefusedError(f"'{where}.content' is not a text or a list of text parts")
        if not isinstance(part["text"], str):
            raise RefusedError(f"'{where}.content' is not a text")
    for key in ("name", "tool_call_id"):
        if message.get(key) is not None:
            _text(256)(f"{where}.{key}", message[key])
    if message.get("tool_calls") is not None:
        _objects(f"{where}.tool_calls", message["tool_calls"])


def _objects(key: str, value: Any) -> None:
    """Tools and calls of tools: as many and as deep as a person writes."""
    if not isinstance(value, list) or len(value) > MAX_TOOLS or not all(isinstance(item, dict) for item in value):
        raise RefusedError(f"'{key}' is not a list of at most {MAX_TOOLS} objects")
    _shallow(key, value, MAX_DEPTH)


def _choice(key: str, value: Any) -> None:
    if not isinstance(value, str | dict):
        raise RefusedError(f"'{key}' is not a word or an object")
    _shallow(key, value, MAX_DEPTH)


def _shallow(key: str, value: Any, left: int) -> None:
    if left == 0:
        raise RefusedError(f"'{key}' is nested more than {MAX_DEPTH} levels deep")
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in inner:
        _shallow(key, item, left - 1)


_PLAIN: dict[str, Rule] = {"prompt": _prompt, "echo": _boolean}
_CHAT: dict[str, Rule] = {
    "messages": _messages,
    "top_logprobs": _whole(0, 20),
    "tools": _objects,
    "tool_choice": _choice,
    "parallel_tool_calls": _boolean,
    "response_format": _choice,
}
