"""LiteLLM's proxy, held to our rules: who may ask, what, how much, and one line of JSON for each request.

This file is mounted into the gateway and runs there beside LiteLLM, which calls `authenticate` and the hooks of `rules`
(its documents: custom_auth, call_hooks, custom_callback). The settings are in `gateway.json`, the clients' keys in a
secret: one file a client, named by it, whose text is the key. No text of a user is written anywhere.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import sys
import time
from pathlib import Path
from typing import Any

import request_rules
from fastapi import HTTPException, Request
from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy._types import UserAPIKeyAuth

SETTINGS: dict[str, Any] = json.loads(Path(__file__).with_name("gateway.json").read_text(encoding="utf-8"))
LIMITS = request_rules.Limits(**SETTINGS["limits"])
MODELS = (SETTINGS["model"],)
CHAT = "/v1/chat/completions"
WAYS = (("POST", CHAT), ("POST", "/v1/completions"), ("GET", "/v1/models"))


def audit(**fields: Any) -> None:
    """One line on stdout: what a request was and what became of it."""
    line = {"audit": "request", "time": round(time.time(), 3), **fields}
    sys.stdout.write(json.dumps({key: value for key, value in line.items() if value is not None}) + "\n")
    sys.stdout.flush()


async def authenticate(request: Request, api_key: str) -> UserAPIKeyAuth:
    """The client of a key, with its limits, and its request held against the schema before LiteLLM adds to it.

    Keys are read anew each time, so that one can be withdrawn.
    """
    path = request.url.path
    if (request.method, path) not in WAYS:
        raise HTTPException(status_code=404, detail="no such path here")
    client = _client_of(api_key.removeprefix("Bearer ").strip())
    if client is None:
        audit(path=path, outcome="unauthorised", status=401)
        raise HTTPException(status_code=401, detail="no client has this key")
    refused = None
    if request.method == "POST":
        try:
            body = request_rules.parse(await request.body(), LIMITS)
            request_rules.check(body, LIMITS, MODELS, chat=path == CHAT)
        except request_rules.RefusedError as error:
            refused = str(error)
    return UserAPIKeyAuth(
        metadata={"refused": refused},  # told by the hook, since what is raised here is an error of authentication
        api_key=hashlib.sha256(f"client {client}".encode()).hexdigest(),
        user_id=client,
        rpm_limit=SETTINGS["requests_per_minute"],
        max_parallel_requests=SETTINGS["parallel_requests"],
    )


def _client_of(given: str) -> str | None:
    found = None
    for path in sorted(Path(SETTINGS["keys"]).iterdir()):
        if path.name.startswith(".") or not path.is_file():
            continue
        key = path.read_text(encoding="utf-8").strip()
        if key and hmac.compare_digest(key.encode(), given.encode()):
            found = path.name
    return found


class Rules(CustomLogger):  # type: ignore[misc]
    """What LiteLLM asks before a request, and tells after it."""

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: Any
    ) -> dict[str, Any]:
        """Refuse what the schema does not know; clean and bound what it let through."""
        client, refused = user_api_key_dict.user_id, user_api_key_dict.metadata.get("refused")
        if refused is not None:
            audit(client=client, outcome="refused", status=400, reason=refused)
            raise HTTPException(status_code=400, detail=refused)
        removed = request_rules.clean(data)
        request_rules.bound(data, LIMITS)
        data.setdefault("metadata", {})["modelctl"] = {
            "client": client,
            "removed_characters": removed,
            "stream": bool(data.get("stream")),
        }
        return data

    async def async_log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """An answer, the gateway's own fallback among them."""
        _tell(kwargs, response_obj, start_time, end_time, outcome="answered")

    async def async_log_failure_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """The engine did not answer; a fallback may follow with a line of its own."""
        error = kwargs.get("exception")
        if isinstance(error, HTTPException):  # our own refusal, which has its line
            return
        _tell(kwargs, None, start_time, end_time, outcome="failed", status=getattr(error, "status_code", None),
              reason=type(error).__name__)  # fmt: skip

    async def async_post_call_failure_hook(
        self, request_data: Any, original_exception: Any, user_api_key_dict: Any, traceback_str: Any = None
    ) -> None:
        """Over the rate limit: nothing was asked of the engine."""
        if getattr(original_exception, "status_code", None) == 429 and user_api_key_dict.user_id:
            audit(client=user_api_key_dict.user_id, outcome="limited", status=429)


def _tell(kwargs: Any, answer: Any, start: Any, end: Any, **fields: Any) -> None:
    parameters = kwargs.get("litellm_params") or {}
    own = (parameters.get("metadata") or {}).get("modelctl") or {}
    usage = getattr(answer, "usage", None)
    fallback = kwargs.get("model") == SETTINGS["fallback"]
    if fallback and fields["outcome"] == "answered":
        fields["outcome"] = "fallback"
    audit(
        request=kwargs.get("litellm_call_id"),
        model=SETTINGS["model"],
        prompt_tokens=getattr(usage, "prompt_tokens", None),
        answer_tokens=getattr(usage, "completion_tokens", None),
        seconds=round((end - start).total_seconds(), 3),
        **own,
        **fields,
    )


rules = Rules()
