"""What the hooks do with LiteLLM's calls; LiteLLM and FastAPI are stand-ins here, and real in `test_real_gateway`."""

from __future__ import annotations

import asyncio
import datetime
import importlib.util
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from modelctl.rollout.front import request_rules
from tests.support.rollouts import PROJECT

HOOKS = PROJECT / "pipeline" / "modelctl" / "rollout" / "front" / "gateway_hooks.py"
SETTINGS = {
    "model": "tiny",
    "fallback": "fallback",
    "limits": {"prompt_chars": 100, "answer_tokens": 16},
    "requests_per_minute": 5,
    "parallel_requests": 2,
}
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
END = START + datetime.timedelta(seconds=1.5)


class HTTPException(Exception):  # noqa: N818 - FastAPI's name
    def __init__(self, status_code: int, detail: str) -> None:
        self.status_code, self.detail = status_code, detail


@dataclass
class UserAPIKeyAuth:
    api_key: str
    user_id: str
    rpm_limit: int
    max_parallel_requests: int
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class Request:
    text: str = ""
    method: str = "POST"
    path: str = "/v1/chat/completions"

    @property
    def url(self) -> Any:
        return SimpleNamespace(path=self.path)

    async def body(self) -> bytes:
        return self.text.encode()


@pytest.fixture
def hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module as the gateway loads it: from a folder that holds its settings."""
    stand_ins = {
        "fastapi": {"HTTPException": HTTPException, "Request": Request},
        "litellm": {},
        "litellm.integrations": {},
        "litellm.integrations.custom_logger": {"CustomLogger": object},
        "litellm.proxy": {},
        "litellm.proxy._types": {"UserAPIKeyAuth": UserAPIKeyAuth},
    }
    for name, values in stand_ins.items():
        module = ModuleType(name)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "request_rules", request_rules)
    keys = tmp_path / "keys"
    keys.mkdir()
    (keys / "app").write_text("sk-app\n")
    (keys / "batch").write_text("sk-batch")
    (keys / "empty").write_text("")
    (keys / "..data").mkdir()
    settings = tmp_path / "gateway.json"
    settings.write_text(json.dumps({**SETTINGS, "keys": str(keys)}))
    real = Path.with_name
    monkeypatch.setattr(Path, "with_name", lambda self, name: settings if name == "gateway.json" else real(self, name))
    spec = importlib.util.spec_from_file_location("gateway_hooks", HOOKS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def asked(hooks: Any, body: Any, key: str = "Bearer sk-app", **request: Any) -> UserAPIKeyAuth:
    found: UserAPIKeyAuth = asyncio.run(hooks.authenticate(Request(json.dumps(body), **request), key))
    return found


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "a secret\u202e word"}]}


def test_a_client_is_known_by_its_key_and_bounded(hooks: Any) -> None:
    client = asked(hooks, CHAT)
    assert (client.user_id, client.rpm_limit, client.max_parallel_requests) == ("app", 5, 2)
    assert asked(hooks, CHAT, "sk-batch").user_id == "batch"
    assert client.api_key != asked(hooks, CHAT, "sk-batch").api_key
    assert "sk-app" not in client.api_key


@pytest.mark.parametrize("key", ["", "Bearer ", "sk-other", "sk-ap"])
def test_another_key_is_nobodys(key: str, hooks: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(HTTPException) as caught:
        asked(hooks, CHAT, key)
    assert caught.value.status_code == 401
    assert lines(capsys)[0]["outcome"] == "unauthorised"


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/v1/chat/completions"), ("POST", "/key/generate"), ("GET", "/config/yaml")]
)
def test_there_is_no_other_way(method: str, path: str, hooks: Any) -> None:
    with pytest.raises(HTTPException) as caught:
        asked(hooks, CHAT, method=method, path=path)
    assert caught.value.status_code == 404


def test_what_the_schema_refuses_is_refused_with_a_line(hooks: Any, capsys: pytest.CaptureFixture[str]) -> None:
    client = asked(hooks, {**CHAT, "foo": 1})
    with pytest.raises(HTTPException) as caught:
        asyncio.run(hooks.rules.async_pre_call_hook(client, None, {}, "completion"))
    assert caught.value.status_code == 400
    (line,) = lines(capsys)
    assert (line["client"], line["outcome"], line["status"]) == ("app", "refused", 400)
    assert "unknown key 'foo'" in line["reason"]


def test_a_request_is_cleaned_bounded_and_told(hooks: Any, capsys: pytest.CaptureFixture[str]) -> None:
    data: dict[str, Any] = json.loads(json.dumps(CHAT))
    asyncio.run(hooks.rules.async_pre_call_hook(asked(hooks, CHAT), None, data, "completion"))
    assert data["messages"][0]["content"] == "a secret word"
    assert data["max_tokens"] == 16
    answer = SimpleNamespace(usage=SimpleNamespace(prompt_tokens=3, completion_tokens=5))
    call = {"litellm_params": {"metadata": data["metadata"]}, "litellm_call_id": "id-1", "model": "tiny"}
    asyncio.run(hooks.rules.async_log_success_event(call, answer, START, END))
    asyncio.run(hooks.rules.async_log_success_event({**call, "model": "fallback"}, answer, START, END))
    asyncio.run(hooks.rules.async_log_failure_event({**call, "exception": OSError("a secret")}, None, START, END))
    refused = HTTPException(400, "told already")
    asyncio.run(hooks.rules.async_log_failure_event({**call, "exception": refused}, None, START, END))
    answered, fallback, failed = lines(capsys)
    assert answered["outcome"] == "answered"
    assert (answered["client"], answered["request"], answered["seconds"]) == ("app", "id-1", 1.5)
    assert (answered["prompt_tokens"], answered["answer_tokens"], answered["removed_characters"]) == (3, 5, 1)
    assert fallback["outcome"] == "fallback"
    assert (failed["outcome"], failed["reason"]) == ("failed", "OSError")
    assert "secret" not in json.dumps([answered, fallback, failed])


def test_a_limit_has_its_line(hooks: Any, capsys: pytest.CaptureFixture[str]) -> None:
    client = asked(hooks, CHAT)
    for status in (429, 500):
        error = HTTPException(status, "limit")
        asyncio.run(hooks.rules.async_post_call_failure_hook({}, error, client))
    (line,) = lines(capsys)
    assert (line["client"], line["outcome"]) == ("app", "limited")
