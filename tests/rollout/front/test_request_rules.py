"""What the gateway lets through, and what it takes out of texts."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest

from modelctl.rollout.front.request_rules import Limits, RefusedError, bound, check, clean, parse

LIMITS = Limits(prompt_chars=1000, answer_tokens=256)
MODELS = ("tiny",)
CHAT: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}]}
PLAIN: dict[str, Any] = {"model": "tiny", "prompt": "hello"}


def judged(body: Any, *, chat: bool = True) -> str | None:
    """Why a request is refused; None when it is let through."""
    try:
        check(parse(json.dumps(body).encode(), LIMITS), LIMITS, MODELS, chat=chat)
    except RefusedError as refused:
        return str(refused)
    return None


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"temperature": 0, "top_p": 1.0, "seed": -7, "stop": ["\n", "END"], "n": 1, "user": "a"},
        {"stream": True, "stream_options": {"include_usage": True}},
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}], "tool_choice": "auto"},
        {"response_format": {"type": "json_object"}, "max_completion_tokens": 256},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}]},
        {
            "messages": [
                {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
                {"role": "tool", "tool_call_id": "1", "content": "4"},
            ]
        },
        {"temperature": None},
    ],
)
def test_an_ordinary_request_is_let_through(more: dict[str, Any]) -> None:
    assert judged({**CHAT, **more}) is None


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"foo": 1}, "unknown key 'foo'"),
        ({"prompt": "x"}, "unknown key 'prompt'"),
        ({"model": "other"}, "'model' is none of tiny"),
        ({"model": None}, "'model' is missing"),
        ({"temperature": 3}, "'temperature' is not a number from 0 to 2"),
        ({"temperature": True}, "'temperature'"),
        ({"n": 2}, "'n' is not a whole number from 1 to 1"),
        ({"max_tokens": 257}, "'max_tokens' is not a whole number from 1 to 256"),
        ({"max_completion_tokens": 257}, "'max_completion_tokens'"),
        ({"stop": ["a"] * 5}, "'stop' has more than 4 texts"),
        ({"stream": "yes"}, "'stream' is not true or false"),
        ({"stream_options": {"other": 1}}, "'stream_options' knows"),
        ({"messages": []}, "list of 1 to"),
        ({"messages": [{"role": "root", "content": "x"}]}, r"messages\[0\].role"),
        ({"messages": [{"role": "user", "content": "x", "extra": 1}]}, r"messages\[0\]"),
        ({"messages": [{"role": "user", "content": 1}]}, "not a text"),
        ({"messages": [{"role": "user", "content": None}]}, "not a text"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]}, "text parts"),
        ({"messages": [{"role": "user", "content": "x" * 600}] * 2}, "1200 characters"),
        ({"tools": [1]}, "'tools'"),
        ({"logprobs": 99}, "'logprobs'"),
    ],
)
def test_what_the_schema_does_not_know_is_refused_by_name(more: dict[str, Any], words: str) -> None:
    assert re.search(words, judged({**CHAT, **more}) or "let through")


def test_a_plain_completion_has_its_own_keys() -> None:
    assert judged(PLAIN, chat=False) is None
    assert judged({**PLAIN, "prompt": ["hello"], "echo": False}, chat=False) is None
    assert "unknown key 'messages'" in (judged({**PLAIN, "messages": []}, chat=False) or "")
    assert "'prompt' is not one text" in (judged({**PLAIN, "prompt": [1, 2]}, chat=False) or "")
    assert "'prompt' is missing" in (judged({"model": "tiny"}, chat=False) or "")


def test_depth_is_bounded() -> None:
    deep: Any = {}
    for _ in range(20):
        deep = {"a": deep}
    assert "nested" in (judged({**CHAT, "tools": [deep]}) or "")


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"[]", "not a JSON object"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b'{"model": "tiny", "model": "tiny"}', "stands twice"),
        (b'{"temperature": NaN}', "NaN is no number"),
        (b"[" * 100_000, "not JSON|too many"),
        (b" " * 80_000, "too many"),
    ],
)
def test_bytes_that_are_no_request(raw: bytes, words: str) -> None:
    with pytest.raises(RefusedError, match=words):
        check(parse(raw, LIMITS), LIMITS, MODELS, chat=True)


def test_a_refusal_never_says_what_the_user_wrote() -> None:
    secret = "my password is hunter2"
    for more in ({"stop": [secret] * 5}, {"user": secret * 50}, {"messages": [{"role": secret, "content": secret}]}):
        assert secret not in (judged({**CHAT, **more}) or "")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a\u202eb\u2066c\u200f", "abc"),
        ("bell\x07 and null\x00, lines\n\tstay\r\n", "bell and null, lines\n\tstay\r\n"),
        ("hidden\U000e0041\U000e0042", "hidden"),
        ("café 你好 👩\u200d🔬 עברית", "café 你好 👩\u200d🔬 עברית"),
        ("broken \ud800 half", "broken  half"),
    ],
)
def test_characters_that_hide_something_are_taken_out(text: str, kept: str) -> None:
    parts = [{"type": "text", "text": text}]
    bodies = [
        {"messages": [{"role": "user", "content": text}]},
        {"messages": [{"role": "user", "content": parts}]},
        {"prompt": text},
        {"prompt": [text]},
    ]
    for body in bodies:
        found = copy.deepcopy(body)
        assert clean(found) == len(text) - len(kept)
        assert json.dumps(found) == json.dumps(body).replace(json.dumps(text), json.dumps(kept))


def test_an_answer_that_is_left_open_is_bounded() -> None:
    left_open, said, said_otherwise = {}, {"max_tokens": 3}, {"max_completion_tokens": 3}  # type: ignore[var-annotated]
    for body in (left_open, said, said_otherwise):
        bound(body, LIMITS)
    assert (left_open, said, said_otherwise) == ({"max_tokens": 256}, {"max_tokens": 3}, {"max_completion_tokens": 3})
