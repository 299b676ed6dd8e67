"""Whether the load generator and `vllm bench serve` (and aiperf, where it is installed) say the same of a real engine.

Tools take turns on the same engine. Two may differ by as much as one of them does from turn to turn.
"""

from __future__ import annotations

import os
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from comparison import Row
from load_tools import AIPERF, ENGINE, ENVIRONMENT, MODEL, drive_aiperf, drive_ours, drive_vllm

LEAST_NOISE = 0.05
"""Two tools may differ by this at any rate."""
TURNS = 3
"""Of each tool, after one that warms the engine."""
SIZE = {"streams": 4, "prompt": 64, "answer": 16, "requests": 16}
Tool = Callable[[str, int], Mapping[str, float]]


def beside_vllm(folder: Path) -> list[Row]:
    """TTFT, TPOT and throughput of both, and by how much they differ against the noise."""
    return _agreement(
        folder, "vllm bench serve", lambda url, turn: drive_vllm(url, folder, model="small", seed=turn, **SIZE)
    )


def beside_aiperf(folder: Path) -> list[Row]:
    """The same beside aiperf, where it is installed."""
    if not AIPERF.exists():
        return []
    return _agreement(folder, "aiperf", lambda url, turn: drive_aiperf(url, folder, model="small", seed=turn, **SIZE))


def _agreement(folder: Path, name: str, other: Tool) -> list[Row]:
    tools: dict[str, Tool] = {
        "modelctl": lambda url, turn: drive_ours(url, model="small", seed=turn, ramp=False, **SIZE),
        name: other,
    }
    seen: dict[str, list[Mapping[str, float]]] = {tool: [] for tool in tools}
    with _engine(folder) as url:
        for turn in range(TURNS + 1):
            for tool in sorted(tools, reverse=bool(turn % 2)):
                figures = tools[tool](url, turn)
                if turn:
                    seen[tool].append(figures)
    return [
        row
        for figure, unit in (("ttft_s", "s"), ("tpot_s", "s"), ("throughput", "tokens/s"))
        for row in _agree(figure, unit, name, seen)
    ]


def _agree(figure: str, unit: str, other: str, seen: Mapping[str, list[Mapping[str, float]]]) -> list[Row]:
    """One figure of both tools, and their difference as a share of the noise."""
    ours, theirs = ([turn[figure] for turn in seen[name]] for name in ("modelctl", other))
    name = f"SmolLM2-135M on the CPU engine: {figure.removesuffix('_s')}"
    spreads = {"spread_ours": round(_spread(ours), 3), "spread_other": round(_spread(theirs), 3)}
    row = Row(
        figure=name, ours=median(ours), beside=other, other=median(theirs), unit=unit,
        parameters={**SIZE, "turns": TURNS, **spreads},
    )  # fmt: skip
    difference = Row(
        figure=f"{name}, difference", ours=abs(1 - row.ratio), beside="noise of the turns",
        other=max(LEAST_NOISE, *spreads.values()), unit="", at_most=1.0, parameters=row.parameters,
    )  # fmt: skip
    return [row, difference]


def _spread(values: list[float]) -> float:
    """From the least to the most, as a share of the median."""
    return (max(values) - min(values)) / median(values)


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
