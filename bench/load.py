"""The load generator beside `vllm bench serve` (and guidellm and aiperf, where they are installed): what it costs, and
whether they agree on a real engine.

The server has one core, the client another. Processor time is the slope between a short and a long run of the same
streams, so that start-up and imports do not count.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from comparison import Row
from load_tools import (
    AIPERF,
    ENGINE,
    ENVIRONMENT,
    GUIDELLM,
    MODEL,
    drive_aiperf,
    drive_guidellm,
    drive_ours,
    drive_vllm,
)

STREAMS = 1000
ANSWER_TOKENS = 128
TOKEN_S = 0.1
SHORT, LONG = 1000, 3000
"""Requests of the two runs."""
MAX_LAG_MS = 20.0
LEAST_NOISE = 0.05
"""Two tools may differ by as much as one of them does from turn to turn, and by this at any rate."""
ROUNDS = 5
"""Turns of all tools on the real engine."""


def ready() -> bool:
    """Whether the engine's environment and the small model are there."""
    return ENGINE.exists() and (MODEL / "config.json").exists()


def rows(folder: Path) -> list[Row]:
    """All figures."""
    return [*client_cost(folder), *agreement(folder)]


def client_cost(folder: Path) -> list[Row]:
    """Processor seconds for a million tokens, and how late the event loop was."""
    cores = sorted(os.sched_getaffinity(0))
    parameters = {"streams": STREAMS, "answer_tokens": ANSWER_TOKENS, "token_s": TOKEN_S}
    lags: list[float] = []

    def ours(url: str, requests: int) -> None:
        lags.append(drive_ours(url, streams=STREAMS, requests=requests, answer=ANSWER_TOKENS)["lag_p99_s"] * 1000)

    def vllm(url: str, requests: int) -> None:
        drive_vllm(url, folder, streams=STREAMS, requests=requests, prompt=32, answer=ANSWER_TOKENS)

    def guidellm(url: str, requests: int) -> None:
        drive_guidellm(url, folder, streams=STREAMS, requests=requests, answer=ANSWER_TOKENS)

    def aiperf(url: str, requests: int) -> None:
        drive_aiperf(url, folder, streams=STREAMS, requests=requests, prompt=32, answer=ANSWER_TOKENS)

    tools: dict[str, Callable[[str, int], None]] = {"modelctl": ours, "vllm bench serve": vllm}
    if GUIDELLM.exists():
        tools["guidellm"] = guidellm
    if AIPERF.exists():
        tools["aiperf"] = aiperf
    costs: dict[str, float] = {}
    with _server(cores[0]) as url:
        for name, tool in tools.items():
            short, long = (_cost(tool, url, requests, cores[-1]) for requests in (SHORT, LONG))
            costs[name] = (long[1] - short[1]) / (long[0] - short[0]) * 1e6
    found = [
        Row(
            figure="load generator: processor time of a million tokens", ours=costs["modelctl"], beside=name,
            other=cost, at_most=1.0, parameters=parameters,
        )
        for name, cost in costs.items()
        if name != "modelctl"
    ]  # fmt: skip
    found.append(
        Row(
            figure=f"load generator: event-loop lag p99, {STREAMS} streams", ours=max(lags), beside="the limit",
            other=MAX_LAG_MS, unit="ms", at_most=1.0, parameters=parameters,
        )
    )  # fmt: skip
    return found


def agreement(folder: Path) -> list[Row]:
    """TTFT, TPOT and throughput of every tool on the real engine, in turns, and whether they differ by more than one of
    them does from turn to turn."""
    size = {"streams": 4, "prompt": 64, "answer": 32, "requests": 32}
    tools: dict[str, Callable[[str, int], Mapping[str, float]]] = {
        "modelctl": lambda url, turn: drive_ours(url, model="small", seed=turn, ramp=False, **size),
        "vllm bench serve": lambda url, turn: drive_vllm(url, folder, model="small", seed=turn, **size),
    }
    if AIPERF.exists():
        tools["aiperf"] = lambda url, turn: drive_aiperf(url, folder, model="small", seed=turn, **size)
    seen: dict[str, list[Mapping[str, float]]] = {name: [] for name in tools}
    with _engine(folder) as url:
        for turn in range(ROUNDS + 1):
            for name in sorted(tools, reverse=bool(turn % 2)):
                figures = tools[name](url, turn)
                if turn:  # the first turn warms the engine
                    seen[name].append(figures)
    return [
        row
        for figure, unit in (("ttft_s", "s"), ("tpot_s", "s"), ("throughput", "tokens/s"))
        for other in tools
        if other != "modelctl"
        for row in _agree(figure, unit, other, seen, size)
    ]


def _agree(
    figure: str, unit: str, other: str, seen: Mapping[str, list[Mapping[str, float]]], size: Mapping[str, int]
) -> list[Row]:
    """One figure of both tools, and their difference as a share of the noise."""
    ours, theirs = ([turn[figure] for turn in seen[name]] for name in ("modelctl", other))
    name = f"SmolLM2-135M on the CPU engine: {figure.removesuffix('_s')}"
    spreads = {"spread_ours": round(_spread(ours), 3), "spread_other": round(_spread(theirs), 3)}
    row = Row(
        figure=name, ours=median(ours), beside=other, other=median(theirs), unit=unit,
        parameters={**size, "turns": ROUNDS, **spreads},
    )  # fmt: skip
    difference = Row(
        figure=f"{name}, difference", ours=abs(1 - row.ratio), beside="noise of the turns",
        other=max(LEAST_NOISE, *spreads.values()), unit="", at_most=1.0, parameters=row.parameters,
    )  # fmt: skip
    return [row, difference]


def _spread(values: list[float]) -> float:
    """From the least to the most, as a share of the median."""
    return (max(values) - min(values)) / median(values)


def _cost(tool: Callable[[str, int], None], url: str, requests: int, core: int) -> tuple[int, float]:
    """Tokens that the server sent and processor seconds that the tool and its children took."""
    cores = os.sched_getaffinity(0)
    before, tokens = resource.getrusage(resource.RUSAGE_CHILDREN), _sent(url)
    os.sched_setaffinity(0, {core})
    try:
        tool(url, requests)
    finally:
        os.sched_setaffinity(0, cores)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return _sent(url) - tokens, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _sent(url: str) -> int:
    with urllib.request.urlopen(f"{url}/seen", timeout=60) as answer:  # noqa: S310 # nosec B310
        return int(json.load(answer)["generated"])


@contextmanager
def _server(core: int) -> Iterator[str]:
    """The fault engine of this folder on a core of its own."""
    program = Path(__file__).with_name("stream_server.py")
    command = ["taskset", "-c", str(core), sys.executable, str(program), "--token-s", str(TOKEN_S)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            if process.stdout is None:
                raise AssertionError("a pipe was asked for")
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


@contextmanager
def _engine(folder: Path) -> Iterator[str]:
    """vLLM on the small model, on a port of loopback."""
    port, log = 8790, folder / "engine.log"
    command = [
        str(ENGINE), "-m", "vllm.entrypoints.openai.api_server", "--model", str(MODEL), "--served-model-name", "small",
        "--host", "127.0.0.1", "--port", str(port), "--max-model-len", "1024", "--max-num-seqs", "8", "--enforce-eager",
        "--generation-config", "vllm", "--no-enable-prefix-caching", "--dtype", "float32",
    ]  # fmt: skip
    environment = {**os.environ, **ENVIRONMENT, "VLLM_CPU_KVCACHE_SPACE": "1"}
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output, env=environment) as process:
        try:
            deadline = time.monotonic() + 600
            while not _listens(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"bench: the engine did not start: {log.read_text()[-2000:]}")
                time.sleep(1)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def _listens(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5):  # nosec B310
            return True
    except OSError:
        return False


if __name__ == "__main__":
    from comparison import table

    with tempfile.TemporaryDirectory() as temporary:
        part = {"cost": client_cost, "agreement": agreement}[sys.argv[1]]
        print(table(part(Path(temporary))))
