"""Draws docs/images/dashboards.png: the panels' own queries, answered by a real Prometheus about generated engines.

A preview for people who read about the dashboards, not Grafana. Needs prometheus, promtool and the extra `charts`;
from the root: `.venv/bin/python scripts/dashboard_preview.py`.
"""

from __future__ import annotations

import json
import math
import random
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from modelctl.rollout.panels.base import Panel

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "dashboards.png"
LENGTH_S, STEP_S, CANARY_FROM_S = 5400, 15, 1800
SHOWN = (
    "Requests per second", "Share of the requests by release", "Time to first token", "Time from token to token",
    "Requests in the engines", "How answers end", "KV cache in use", "Running requests", "Preemptions per minute",
    "Busy", "Power", "Memory in use",
)  # fmt: skip
EDGES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)
STABLE, CANARY = "stable-7d9f", "canary-5c2b"
PODS = {"tiny-a": STABLE, "tiny-b": STABLE, "tiny-c": STABLE, "tiny-d": CANARY}
COLOURS = ("#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#b877d9", "#f2495c")


def samples(pod: str, release: str, start: int) -> Iterator[tuple[str, float, int]]:
    """One pod's life: a day's load in short, slower where it is the canary."""
    chance = random.Random(pod)  # noqa: S311 - a picture
    slow = 1.6 if release == CANARY else 1.0
    label = f'namespace="models-prod",app_kubernetes_io_name="tiny",pod="{pod}",rollouts_pod_template_hash="{release}"'
    gpu = f'namespace="models-prod",pod="{pod}",gpu="0"'
    count: dict[str, float] = {}

    def add(name: str, value: float) -> float:
        count[name] = count.get(name, 0.0) + value
        return count[name]

    for second in range(CANARY_FROM_S if release == CANARY else 0, LENGTH_S + 1, STEP_S):
        load = 0.55 + 0.35 * math.sin(second / 900) + chance.uniform(-0.05, 0.05)
        per_s = 4.0 * load
        running = 24 * load * slow
        yield f"up{{{label}}}", 1, second + start
        yield f"vllm:num_requests_running{{{label}}}", round(running), second + start
        yield f"vllm:num_requests_waiting{{{label}}}", max(0, round(running - 30)), second + start
        yield f"vllm:kv_cache_usage_perc{{{label}}}", min(1.0, running / 40), second + start
        preempted = add("preempted", 0.3 if running > 32 else 0)
        yield f"vllm:num_preemptions_total{{{label}}}", preempted, second + start
        for status, share in (("2xx", 0.997), ("5xx", 0.003)):
            value = add(status, per_s * STEP_S * share)
            yield (
                f'http_requests_total{{{label},handler="/v1/chat/completions",status="{status}"}}',
                value,
                second + start,
            )
        for reason, share in (("stop", 0.86), ("length", 0.13), ("error", 0.01)):
            value = add(reason, per_s * STEP_S * share)
            yield f'vllm:request_success_total{{{label},finished_reason="{reason}"}}', value, second + start
        for name, mean in (("time_to_first_token", 0.25 + 0.3 * load), ("inter_token_latency", 0.03 + 0.02 * load)):
            yield from latency(f"vllm:{name}_seconds", label, mean * slow, per_s, second + start, count)
        yield f"DCGM_FI_DEV_GPU_UTIL{{{gpu}}}", min(100, 60 + 45 * load), second + start
        yield f"DCGM_FI_DEV_POWER_USAGE{{{gpu}}}", 280 + 350 * load, second + start
        yield f"DCGM_FI_DEV_FB_USED{{{gpu}}}", 73_400 + 90 * load, second + start
        yield f"DCGM_FI_DEV_FB_FREE{{{gpu}}}", 8_100 - 90 * load, second + start


def latency(
    series: str, label: str, mean: float, per_s: float, at: int, count: dict[str, float]
) -> Iterator[tuple[str, float, int]]:
    """A histogram of an exponential distribution."""
    for edge in (*EDGES, math.inf):
        key = f"{series}{edge}"
        count[key] = count.get(key, 0.0) + per_s * STEP_S * (1 - math.exp(-edge / mean))
        text = "+Inf" if math.isinf(edge) else str(edge)
        yield f'{series}_bucket{{{label},le="{text}"}}', count[key], at
    for part, value in (("count", 1.0), ("sum", mean)):
        key = f"{series}{part}"
        count[key] = count.get(key, 0.0) + per_s * STEP_S * value
        yield f"{series}_{part}{{{label}}}", count[key], at


def answer(address: str, query: str, start: int) -> list[tuple[Mapping[str, str], list[tuple[float, float]]]]:
    """The lines of a panel's query, in minutes and values; gaps are not a number."""
    filled = query.replace("$__rate_interval", "2m").replace("$namespace", "models-prod").replace("$model", "tiny")
    asked = urllib.parse.urlencode({"query": filled, "start": start + 120, "end": start + LENGTH_S, "step": 30})
    url = f"{address}/api/v1/query_range?{asked}"
    with urllib.request.urlopen(url, timeout=30) as found:  # noqa: S310 # nosec B310 - loopback
        rows = json.load(found)["data"]["result"]
    return [
        (row["metric"], [((float(at) - start) / 60, float(value)) for at, value in row["values"]])
        for row in sorted(rows, key=lambda row: sorted(row["metric"].items()))
    ]


def draw(axes: Any, panel: Panel, address: str, start: int) -> None:
    """One panel."""
    for query in panel.queries:
        for labels, points in answer(address, query.expression, start):
            name = query.legend
            for key, value in labels.items():
                name = name.replace("{{" + key + "}}", value)
            colour = COLOURS[len(axes.lines) % len(COLOURS)]
            axes.plot(*zip(*points, strict=True), label=name, color=colour, linewidth=1.1)
    top = max((max(line.get_ydata()) for line in axes.lines), default=1)
    for limit in panel.thresholds:
        if limit <= 1.6 * top:
            axes.axhline(limit, color="#f2495c", linestyle="--", linewidth=0.8)
    axes.set_ylim(0, panel.most)
    axes.set_title(f"{panel.title}  [{panel.unit}]", fontsize=9, loc="left", color="#d8d9da")
    axes.tick_params(labelsize=7, colors="#9fa7b3")
    axes.grid(color="#2c3235", linewidth=0.5)
    axes.set_facecolor("#181b1f")
    for spine in axes.spines.values():
        spine.set_color("#2c3235")
    axes.legend(fontsize=6, loc="upper left", framealpha=0.3, labelcolor="#d8d9da", facecolor="#181b1f")


def main() -> int:
    """Draw the picture."""
    sys.path.insert(0, str(ROOT))
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot
    from tests.support.rollouts import an_environment

    from modelctl.rollout.dashboards import dashboards
    from modelctl.services.process import running
    from modelctl.services.prometheus import prometheus

    promtool = shutil.which("promtool")
    if promtool is None:
        raise SystemExit("promtool is not installed: apt-get install prometheus")
    start = int(time.time()) - LENGTH_S - 60
    boards = dashboards(an_environment(dashboards={}), gpus=1)
    panels = {panel.title: panel for board in reversed(boards) for panel in board.panels}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = [
            f"{series} {value} {at}"
            for pod, release in PODS.items()
            for series, value, at in samples(pod, release, start)
        ]
        (folder / "metrics.txt").write_text("\n".join([*lines, "# EOF", ""]), encoding="utf-8")
        create = [promtool, "tsdb", "create-blocks-from", "openmetrics", "--quiet"]
        subprocess.run([*create, str(folder / "metrics.txt"), str(folder / "data")], check=True, capture_output=True)
        figure, grid = pyplot.subplots(4, 3, figsize=(15, 12), facecolor="#111217")
        with running(prometheus(folder, targets=[])) as service:
            for axes, title in zip(grid.flat, SHOWN, strict=True):
                draw(axes, panels[title], service.address, start)
    figure.suptitle(
        "Preview of the panels, not Grafana: a real Prometheus, asked by scripts/dashboard_preview.py (x: minutes)",
        color="#d8d9da", fontsize=11,
    )  # fmt: skip
    figure.tight_layout()
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, dpi=80, facecolor=figure.get_facecolor())
    return 0


if __name__ == "__main__":
    sys.exit(main())
