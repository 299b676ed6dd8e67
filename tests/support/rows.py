"""Rows of requests with made-up figures."""

from __future__ import annotations

from typing import Any

from modelctl.serving.answers import RequestRow


def request_row(**figures: Any) -> RequestRow:
    """A good request of one second, but for what is given."""
    row: dict[str, Any] = {
        "stream": 0, "serial": 0, "intended_s": 0.0, "sent_s": 0.0, "first_byte_s": 0.1, "first_token_s": 0.1,
        "last_token_s": 1.0, "done_s": 1.0, "status": 200, "finish_reason": "length", "prompt_tokens": 8,
        "completion_tokens": 10, "chunks": 10, "longest_gap_s": 0.1, "repeats_one_token": False, "failure": None,
        "detail": None,
    }  # fmt: skip
    return RequestRow(**(row | figures))
