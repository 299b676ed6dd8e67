"""LiteLLM's real proxy with our rules as they are mounted, in front of an engine that streams.

The proxy is no part of the project's environments: the first run installs it into `.cache/gateway`.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modelctl.rollout.front.resources import RULES, proxy_config, rule_source, rules_settings
from modelctl.services.process import free_port
from tests.rollout.front.test_resources import FRONT
from tests.support.engine import FaultEngine, fault_engine
from tests.support.rollouts import PROJECT, a_release, a_serving, an_environment

pytestmark = pytest.mark.long
PLACE = PROJECT / ".cache" / "gateway"
VERSION = "1.99.4"
CHAT = {"model": "fault", "messages": [{"role": "user", "content": "hello\u202e\x07"}], "stream": True}


def litellm() -> Path:
    """The proxy's program."""
    program = PLACE / "bin" / "litellm"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", str(PLACE)], check=True)
        subprocess.run([PLACE / "bin" / "pip", "install", "--quiet", f"litellm[proxy]=={VERSION}"], check=True)
    return program


class Gateway:
    """A running proxy and the engine behind it."""

    def __init__(self, folder: Path, engine: FaultEngine) -> None:
        self.folder, self.engine = folder, engine
        self.port, self.engine_port = free_port(), free_port()
        threading.Thread(target=lambda: asyncio.run(self._forward()), daemon=True).start()
        environment = an_environment(
            front={**FRONT, "upstream": f"http://127.0.0.1:{self.engine_port}", "requests_per_minute": 8, "retries": 0}
        )
        assert environment.front is not None
        settings = rules_settings(a_release("fault"), a_serving(max_model_len=64), environment.front)
        keys = folder / "keys"
        keys.mkdir()
        for client in ("app", "batch"):
            (keys / client).write_text(f"sk-{client}")
        (folder / "gateway.json").write_text(json.dumps({**settings, "keys": str(keys)}))
        (folder / "config.yaml").write_text(json.dumps(proxy_config(a_release("fault"), environment, "fault")))
        for file in RULES:
            (folder / file).write_text(rule_source(file), encoding="utf-8")

    async def _forward(self) -> None:
        """Bytes from a port to the engine's socket."""

        async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(65536):
                writer.write(data)
            writer.close()

        async def on_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                behind, before = await asyncio.open_unix_connection(str(self.engine.socket))
            except OSError:
                writer.close()
                return
            await asyncio.gather(copy(reader, before), copy(behind, writer))

        server = await asyncio.start_server(on_client, "127.0.0.1", self.engine_port)
        await server.serve_forever()

    def start(self) -> subprocess.Popen[bytes]:
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "PYTHONPATH": str(self.folder),
            "LITELLM_MODE": "PRODUCTION",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "NO_DOCS": "True",
        }
        with (self.folder / "log").open("wb") as log:
            return subprocess.Popen(
                [litellm(), f"--config={self.folder}/config.yaml", "--host=127.0.0.1", f"--port={self.port}",
                 "--telemetry=False"],
                cwd=self.folder, env=environ, stdout=log, stderr=log,
            )  # fmt: skip

    def ask(self, body: Any, *, key: str = "sk-app", path: str = "/v1/chat/completions") -> tuple[int, str]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def audit(self) -> list[dict[str, Any]]:
        lines = (self.folder / "log").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.startswith('{"audit"')]

    def told(self, outcome: str) -> dict[str, Any]:
        """The newest line of an outcome; LiteLLM writes them behind the answer."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            found = [line for line in self.audit() if line["outcome"] == outcome]
            if found:
                return found[-1]
            time.sleep(0.2)
        raise AssertionError((self.folder / "log").read_text(encoding="utf-8")[-4000:])


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with fault_engine(tmp_path_factory.mktemp("engine")) as engine:
        found = Gateway(tmp_path_factory.mktemp("gateway"), engine)
        process = found.start()
        try:
            deadline = time.monotonic() + 400
            while time.monotonic() < deadline:
                try:
                    if found.ask(None, path="/health/liveliness")[0] == 200:
                        break
                except OSError:
                    assert process.poll() is None, (found.folder / "log").read_text()[-4000:]
                time.sleep(1)
            yield found
        finally:
            process.terminate()
            process.wait(60)


def test_a_request_passes_cleaned_and_is_told(gateway: Gateway) -> None:
    status, text = gateway.ask({**CHAT, "max_tokens": 3})
    assert (status, "[DONE]" in text) == (200, True)
    line = gateway.told("answered")
    assert (line["client"], line["removed_characters"], line["answer_tokens"]) == ("app", 2, 3)
    assert "hello" not in json.dumps(line)


def test_strangers_and_strange_requests_are_refused(gateway: Gateway) -> None:
    assert gateway.ask(CHAT, key="sk-other")[0] == 401
    assert gateway.ask({}, path="/key/generate")[0] == 404
    status, text = gateway.ask({**CHAT, "foo": 1})
    assert status == 400
    assert "unknown key 'foo'" in json.loads(text)["error"]["message"]
    assert gateway.ask({**CHAT, "max_tokens": 65})[0] == 400
    assert gateway.told("refused")["client"] == "app"


def test_a_client_has_a_limit_of_its_own(gateway: Gateway) -> None:
    found = [gateway.ask({**CHAT, "max_tokens": 1}, key="sk-batch")[0] for _ in range(12)]
    assert found.count(429) >= 3
    assert gateway.told("limited")["client"] == "batch"


def test_when_the_engine_is_gone_the_fallback_answers(gateway: Gateway) -> None:
    gateway.engine.__exit__(None, None, None)
    status, text = gateway.ask({**CHAT, "stream": False})
    assert status == 200
    assert json.loads(text)["choices"][0]["message"]["content"] == FRONT["fallback_answer"]
    assert gateway.told("fallback")["client"] == "app"
