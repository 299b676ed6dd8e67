from __future__ import annotations

import json
from typing import Any

import pytest

from modelctl.serving.answers import Answer
from modelctl.serving.events import StreamReader

TEXT = {"choices": [{"index": 0, "text": " word", "finish_reason": None}]}
FINISH = {"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]}
USAGE = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 3}}


def read(*events: Any, chunk: int | None = None) -> Answer:
    reader = StreamReader(stream=0, serial=0, intended_s=9.0, sent_s=10.0)
    reader.status = 200
    at = 10.0
    for event in events:
        line = b"data: " + (event if isinstance(event, bytes) else json.dumps(event).encode()) + b"\n\n"
        at += 1.0
        for begin in range(0, len(line), chunk or len(line)):
            reader.feed(line[begin : begin + (chunk or len(line))], at)
    return reader.answer(done_s=at + 1)


def test_a_complete_answer_with_its_times() -> None:
    answer = read(TEXT, TEXT, TEXT, FINISH, USAGE, b"[DONE]")
    row = answer.row
    assert (row.failure, row.finish_reason, row.prompt_tokens, row.completion_tokens) == (None, "stop", 5, 3)
    assert answer.text == " word word word"
    assert (row.first_token_s, row.ttft_s, row.tpot_s, row.longest_gap_s) == (11.0, 2.0, 1.0, 1.0)
    assert answer.gaps_s == (1.0, 1.0)


def test_events_may_come_in_any_pieces() -> None:
    assert read(TEXT, TEXT, FINISH, USAGE, b"[DONE]", chunk=3).text == " word word"


def test_the_empty_role_delta_of_a_chat_is_no_first_token() -> None:
    role = {"choices": [{"delta": {"role": "assistant", "content": ""}}]}
    thought = {"choices": [{"delta": {"reasoning": "hm"}}]}
    word = {"choices": [{"delta": {"content": "yes"}}]}
    answer = read(role, thought, word, FINISH, USAGE, b"[DONE]")
    assert answer.row.first_byte_s == 11.0
    assert answer.row.first_token_s == 12.0
    assert answer.text == "hmyes"


def test_a_tool_call_is_a_first_token() -> None:
    call = {"choices": [{"delta": {"tool_calls": [{"index": 0}]}}]}
    assert read(call, FINISH, USAGE, b"[DONE]").row.first_token_s == 11.0


def test_tokens_come_from_usage_and_not_from_chunks() -> None:
    row = read(TEXT, FINISH, USAGE, b"[DONE]").row
    assert (row.chunks, row.completion_tokens) == (1, 3)


@pytest.mark.parametrize(
    ("events", "failure", "words"),
    [
        ((TEXT, {"error": {"message": "dead"}}, b"[DONE]"), "stream-error", "status 200: dead"),
        ((TEXT, FINISH, USAGE), "incomplete", "without [DONE]"),
        ((TEXT, USAGE, b"[DONE]"), "incomplete", "without finish_reason"),
        ((TEXT, FINISH, b"[DONE]"), "incomplete", "without usage"),
        ((), "incomplete", "without [DONE] and finish_reason and usage"),
        ((FINISH, {"usage": {"prompt_tokens": 5, "completion_tokens": 0}}, b"[DONE]"), "no-tokens", "no token"),
        ((b"{nonsense", b"[DONE]"), "stream-error", "no JSON object"),
        ((b"[1]", b"[DONE]"), "stream-error", "no JSON object"),
    ],
)
def test_what_is_not_complete_is_a_failure(events: tuple[Any, ...], failure: str, words: str) -> None:
    row = read(*events).row
    assert row.failure == failure
    assert words in (row.detail or "")


def test_a_hostile_message_is_shown_without_control_characters_and_cut() -> None:
    row = read({"error": {"message": "\x1b[31m" + "x" * 10_000}}).row
    assert row.detail is not None
    assert "\x1b" not in row.detail
    assert len(row.detail) <= 300
