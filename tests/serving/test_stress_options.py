"""What `modelctl stress` does with its options, on fault engines."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.browser import look
from tests.support.command import modelctl
from tests.support.engine import FaultEngine, Faults
from tests.support.interfaces import KEY, Interfaces
from tests.support.models import tiny_llama

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


def counted(
    folder: Path, *arguments: str, env: Mapping[str, str] | None = None
) -> tuple[subprocess.CompletedProcess[str], Path]:
    """One run and its folder; one whose client was late is made again, since on a busy machine that is no fault."""
    for number in range(5):
        place = folder / f"run-{number}"
        place.mkdir()
        done = modelctl(*arguments, cwd=place, env=env)
        if "the load generator was late" not in done.stdout:
            break
    return done, place


def test_a_rate_is_kept_and_every_request_too(tmp_path: Path) -> None:
    with FaultEngine(tmp_path) as engine:
        done, place = counted(
            tmp_path, "stress", f"unix:{engine.socket}", "--rate", "30", "--arrivals", "even", "--seconds", "1",
            "--ramp", "0.5", "--prompt-tokens", "32", "--answer-tokens", "16", "--json", "r.json", "--quiet",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "time to first token" in done.stdout
    written = json.loads((place / "r.json").read_text())
    assert (written["requests"], written["failed"], written["not_sent"]) == (30, 0, 0)
    assert written["ttft_s"]["p50"] > 0
    with gzip.open(place / "stress" / "requests.jsonl.gz", "rt") as stream:
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
        done, place = counted(tmp_path, *arguments, env={"MODELCTL_ENGINE_API_KEY": KEY})
        asked = server.asked[-1]
    assert without.returncode == 3
    assert "401" in without.stderr
    assert done.returncode == 0, done.stderr
    assert asked["model"] == "adapter"
    stages = json.loads((place / "e.json").read_text())["stages"]
    assert all(stage["counts"] and stage["throughput"] > 0 for stage in stages)
    assert [stage["ttft_p50_s"] for stage in stages] == [None, None]
    kept = b"".join(path.read_bytes() for path in place.rglob("*") if path.is_file())
    assert KEY not in done.stdout + done.stderr
    assert KEY.encode() not in kept


def test_a_chat_is_asked_with_a_picture_and_an_unknown_model_is_named(tmp_path: Path) -> None:
    environment = {"MODELCTL_ENGINE_API_KEY": KEY}
    with interfaces(tmp_path) as server:
        done, _ = counted(
            tmp_path, "stress", f"unix:{server.socket}", "--api", "chat", "--image", "--rate", "20", "--seconds", "0.5",
            "--ramp", "0", "--quiet", env=environment,
        )  # fmt: skip
        pictures = [request["messages"][0]["content"] for request in server.asked]
        wrong = modelctl("stress", f"unix:{server.socket}", "--model", "adaptor", cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr + done.stdout
    urls = [parts[0]["image_url"]["url"] for parts in pictures if isinstance(parts, list)]
    assert len(set(urls)) == len(urls) > 3
    assert wrong.returncode == 2
    assert "it serves base, adapter" in wrong.stderr


def test_lengths_are_drawn_beside_what_sizing_computes(tmp_path: Path) -> None:
    repo = tiny_llama(tmp_path / "repo", max_positions=512)
    with FaultEngine(tmp_path, Faults(kv_factor=1.5), token_s=0.012) as engine:
        arguments = (
            "stress", f"unix:{engine.socket}", "--to", "2", "--rounds", "1", "--seconds", "0.5", "--ramp", "0",
            "--prompt-tokens", "32", "--answer-tokens", "16", "--lengths", "auto", "--repo", str(repo), "--json",
            "l.json", "--html", "l.html", "--out", "o",
        )  # fmt: skip
        done = modelctl(*arguments, cwd=tmp_path)
        asked = len(engine.requests)
        again = modelctl(*arguments, cwd=tmp_path)
        assert len(engine.requests) == asked
        other = modelctl(*arguments, "--lengths", "256", cwd=tmp_path)
    assert (done.returncode, again.returncode) == (0, 0), done.stderr + again.stderr
    rows = json.loads((tmp_path / "l.json").read_text())["lengths"]["rows"]
    assert [row["length"] for row in rows] == [128, 256, 384, 460, 512]
    assert [row["kv_blocks_computed"] for row in rows] == [8, 16, 24, 29, 32]
    assert all(row["kv_blocks"] == 1.5 * row["kv_blocks_computed"] and row["ttft_s"] > 0 for row in rows)
    assert "computed" in done.stdout
    assert other.returncode == 2
    assert "lengths.json is of other lengths" in other.stderr
    page = (tmp_path / "l.html").read_text()
    for width, dark in ((500, True), (1280, False)):
        seen = look(page, tmp_path, width=width, dark=dark)
        assert seen.width <= seen.window
        assert {"KV cache over length", "blocks of 16 tokens", "measured", "computed"} <= {*seen.texts, *titles(page)}
        assert len(seen.charts) == 9
        assert seen.loaded == []


def titles(page: str) -> list[str]:
    return re.findall(r"<h2>([^<]*)</h2>", page)


def test_a_length_that_fails_is_told_with_its_cliff(tmp_path: Path) -> None:
    with FaultEngine(tmp_path, Faults(rejects_over=300), token_s=0.002) as engine:
        done = modelctl(
            "stress", f"unix:{engine.socket}", "--to", "1", "--rounds", "1", "--seconds", "0.3", "--ramp", "0",
            "--prompt-tokens", "32", "--answer-tokens", "16", "--lengths", "200,400", "--quiet", cwd=tmp_path,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search(r"300 tokens still work|29\d tokens still work", " ".join(done.stdout.split()))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--lengths", "auto", "--rate", "5"), "take --lengths or --rate away"),
        (("--repo", "org/model"), "add --lengths auto"),
        (("--lengths", "auto", "--api", "chat"), "take --lengths or --api away"),
        (("--lengths", "10"), "--lengths '10': wanted are numbers of tokens from 256 on"),
        (("--lengths", "many"), "write for example --lengths 512,2048,8192"),
    ],
)
def test_lengths_that_make_no_sense_are_refused(tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    with FaultEngine(tmp_path) as engine:
        done = modelctl("stress", f"unix:{engine.socket}", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert words in " ".join(done.stderr.split())
