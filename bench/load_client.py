"""What the load generator costs beside `vllm bench serve`, guidellm and aiperf, and how late its event loop is.

The server has one core, the client another. Processor time is the slope between a short and a long run of the same
streams, so that start-up and imports do not count.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from comparison import Row, one_core
from load_tools import AIPERF, GUIDELLM, drive_aiperf, drive_guidellm, drive_ours, drive_vllm

STREAMS = 1000
ANSWER_TOKENS = 128
TOKEN_S = 0.1
SHORT, LONG = 1000, 2000
"""Requests of the two runs."""
MAX_LAG_MS = 20.0
Tool = Callable[[str, int], object]


def beside_vllm(folder: Path) -> list[Row]:
    """Processor time of a million tokens beside `vllm bench serve`, which was promised."""
    return _costs({"vllm bench serve": _vllm(folder)}, at_most=1.0)


def beside_peers(folder: Path) -> list[Row]:
    """The same beside guidellm and aiperf, as far as `.cache/bench-load` has them."""
    peers = {"guidellm": (GUIDELLM, _guidellm(folder)), "aiperf": (AIPERF, _aiperf(folder))}
    found = {name: tool for name, (program, tool) in peers.items() if program.exists()}
    return _costs(found, at_most=1.0) if found else []


def lag() -> list[Row]:
    """How late the event loop was (p99) with as many processes as it starts by itself."""
    with _server() as url, one_core():
        seen = _ours(url, LONG)
    return [
        Row(
            figure=f"load generator: event-loop lag p99, {STREAMS} streams", ours=seen["lag_p99_s"] * 1000,
            beside="the limit", other=MAX_LAG_MS, unit="ms", at_most=1.0,
            parameters={**_PARAMETERS, "requests": LONG, "processes": seen["processes"]},
        )
    ]  # fmt: skip


_PARAMETERS: Mapping[str, int | float] = {"streams": STREAMS, "answer_tokens": ANSWER_TOKENS, "token_s": TOKEN_S}


def _costs(others: Mapping[str, Tool], *, at_most: float) -> list[Row]:
    """A row for each of the others, all driven on one server, one after the other."""
    with _server() as url:
        costs = {name: _slope(tool, url) for name, tool in {"modelctl": _ours, **others}.items()}
    return [
        Row(
            figure="load generator: processor time of a million tokens", ours=costs["modelctl"], beside=name,
            other=costs[name], at_most=at_most,
            parameters={
                **_PARAMETERS, "tokens_a_cpu_second_ours": round(1e6 / costs["modelctl"]),
                "tokens_a_cpu_second_other": round(1e6 / costs[name]),
            },
        )
        for name in others
    ]  # fmt: skip


def _slope(tool: Tool, url: str) -> float:
    """Processor seconds of a million tokens, start-up taken off."""
    short, long = (_cost(tool, url, requests) for requests in (SHORT, LONG))
    return (long[1] - short[1]) / (long[0] - short[0]) * 1e6


def _cost(tool: Tool, url: str, requests: int) -> tuple[int, float]:
    """Tokens that the server sent and processor seconds that the tool and its children took."""
    before, tokens = resource.getrusage(resource.RUSAGE_CHILDREN), _sent(url)
    with one_core():
        tool(url, requests)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return _sent(url) - tokens, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _ours(url: str, requests: int) -> Mapping[str, float]:
    return drive_ours(url, streams=STREAMS, requests=requests, answer=ANSWER_TOKENS)


def _vllm(folder: Path) -> Tool:
    return lambda url, requests: drive_vllm(
        url, folder, streams=STREAMS, requests=requests, prompt=32, answer=ANSWER_TOKENS
    )


def _guidellm(folder: Path) -> Tool:
    return lambda url, requests: drive_guidellm(url, folder, streams=STREAMS, requests=requests, answer=ANSWER_TOKENS)


def _aiperf(folder: Path) -> Tool:
    return lambda url, requests: drive_aiperf(
        url, folder, streams=STREAMS, requests=requests, prompt=32, answer=ANSWER_TOKENS
    )


def _sent(url: str) -> int:
    with urllib.request.urlopen(f"{url}/seen", timeout=60) as answer:  # noqa: S310 # nosec B310
        return int(json.load(answer)["generated"])


@contextmanager
def _server() -> Iterator[str]:
    """The fault engine of this folder on the first core."""
    program = Path(__file__).with_name("stream_server.py")
    core = min(os.sched_getaffinity(0))
    command = ["taskset", "-c", str(core), sys.executable, str(program), "--token-s", str(TOKEN_S)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            if process.stdout is None:
                raise AssertionError("a pipe was asked for")
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()
