"""What `modelctl stress` does with its options, on fault engines."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.command import modelctl
from tests.support.engine import FaultEngine, Faults
from tests.support.interfaces import KEY, Interfaces

pytestmark = pytest.mark.slow


@contextmanager
def interfaces(folder: Path) -> Iterator[Interfaces]:
    import asyncio

    server, ready, loop = Interfaces(folder), threading.Event(), asyncio.new_event_loop()
    stop = asyncio.Event()

    async def run() -> None:
        async with server.serving():
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


def test_a_rate_is_kept_and_every_request_too(tmp_path: Path) -> None:
    with FaultEngine(tmp_path) as engine:
        done = modelctl(
            "stress", f"unix:{engine.socket}", "--rate", "30", "--arrivals", "even", "--seconds", "1", "--ramp", "0.5",
            "--prompt-tokens", "32", "--answer-tokens", "16", "--json", "r.json", "--quiet", cwd=tmp_path,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "time to first token" in done.stdout
    written = json.loads((tmp_path / "r.json").read_text())
    assert (written["requests"], written["failed"], written["not_sent"]) == (30, 0, 0)
    assert written["ttft_s"]["p50"] > 0
    with gzip.open(tmp_path / "stress" / "requests.jsonl.gz", "rt") as stream:
        assert len(stream.readlines()) == 45


def test_a_rate_that_the_client_has_no_room_for_is_not_measured(tmp_path: Path) -> None:
    with FaultEngine(tmp_path, Faults(waits_over=1), token_s=0.02) as engine:
        done = modelctl(
            "stress", f"unix:{engine.socket}", "--rate", "40", "--in-flight", "3", "--seconds", "1", "--ramp", "0",
            "--prompt-tokens", "32", "--answer-tokens", "16", "--quiet", cwd=tmp_path,
        )  # fmt: skip
    assert done.returncode == 3
    assert "were not sent: 3 were under way" in done.stdout


def test_embeddings_are_swept_with_a_key_from_the_variable(tmp_path: Path) -> None:
    with interfaces(tmp_path) as server:
        server.answer_s = 0.05
        arguments = (
            "stress", f"unix:{server.socket}", "--api", "embeddings", "--to", "2", "--rounds", "1", "--seconds", "0.5",
            "--ramp", "0", "--prompt-tokens", "16", "--model", "adapter", "--answer-tokens", "8", "--json", "e.json",
        )  # fmt: skip
        without = modelctl(*arguments, cwd=tmp_path)
        done = modelctl(*arguments, cwd=tmp_path, env={"MODELCTL_ENGINE_API_KEY": KEY})
        asked = server.asked[-1]
    assert without.returncode == 3
    assert "401" in without.stderr
    assert done.returncode == 0, done.stderr
    assert asked["model"] == "adapter"
    stages = json.loads((tmp_path / "e.json").read_text())["stages"]
    assert all(stage["counts"] and stage["throughput"] > 0 for stage in stages)
    assert [stage["ttft_p50_s"] for stage in stages] == [None, None]
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert KEY not in done.stdout + done.stderr
    assert KEY.encode() not in kept


def test_a_chat_is_asked_with_a_picture_and_an_unknown_model_is_named(tmp_path: Path) -> None:
    environment = {"MODELCTL_ENGINE_API_KEY": KEY}
    with interfaces(tmp_path) as server:
        done = modelctl(
            "stress", f"unix:{server.socket}", "--api", "chat", "--image", "--rate", "20", "--seconds", "0.5", "--ramp",
            "0", "--quiet", cwd=tmp_path, env=environment,
        )  # fmt: skip
        pictures = [request["messages"][0]["content"] for request in server.asked]
        wrong = modelctl("stress", f"unix:{server.socket}", "--model", "adaptor", cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr + done.stdout
    urls = [parts[0]["image_url"]["url"] for parts in pictures if isinstance(parts, list)]
    assert len(set(urls)) == len(urls) > 3
    assert wrong.returncode == 2
    assert "it serves base, adapter" in wrong.stderr
