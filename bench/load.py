"""The load generator beside `vllm bench serve` (and guidellm, where it is installed): what it costs, and whether they
agree on a real engine.

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

from comparison import Row

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / ".cache" / "models" / "SmolLM2-135M-Instruct"
ENGINE = ROOT / ".venv-engine" / "bin" / "python"
GUIDELLM = ROOT / ".cache" / "bench-load" / "guidellm" / "bin" / "guidellm"
STREAMS = 1000
ANSWER_TOKENS = 128
TOKEN_S = 0.1
SHORT, LONG = 1000, 3000
"""Requests of the two runs."""
MAX_LAG_MS = 20.0
NOISE = 0.15
"""By how much two tools may differ on one engine on a shared machine."""
_VLLM = "import sys; from vllm.entrypoints.cli.main import main; sys.argv = ['vllm', *sys.argv[1:]]; main()"
_ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}


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
        drive_guidellm(url, folder, requests=requests)

    tools: dict[str, Callable[[str, int], None]] = {"modelctl": ours, "vllm bench serve": vllm}
    if GUIDELLM.exists():
        tools["guidellm"] = guidellm
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
    """TTFT, TPOT and throughput of both tools on the real engine, in turns, and the largest difference."""
    streams, prompt, answer, requests = 4, 64, 32, 48
    parameters = {"streams": streams, "prompt_tokens": prompt, "answer_tokens": answer, "requests": requests}
    seen: dict[str, list[Mapping[str, float]]] = {"ours": [], "other": []}
    with _engine(folder) as url:
        for number in range(3):
            mine = drive_ours(
                url, streams=streams, requests=requests, prompt=prompt, answer=answer, model="small", seed=number
            )
            other = drive_vllm(
                url,
                folder,
                streams=streams,
                requests=requests,
                prompt=prompt,
                answer=answer,
                model="small",
                seed=number,
            )
            seen["ours"].append(mine)
            seen["other"].append(other)
    found = []
    for name, unit in (("ttft_s", "s"), ("tpot_s", "s"), ("throughput", "tokens/s")):
        ours, theirs = (sorted(run[name] for run in seen[side])[1] for side in ("ours", "other"))
        found.append(
            Row(
                figure=f"SmolLM2-135M on the CPU engine: {name.removesuffix('_s')}", ours=ours,
                beside="vllm bench serve", other=theirs, unit=unit, parameters=parameters,
            )
        )  # fmt: skip
    differences = [abs(1 - row.ratio) for row in found]
    found.append(
        Row(
            figure="largest difference of the three", ours=max(differences), beside="noise allowed", other=NOISE,
            unit="", at_most=1.0, parameters=parameters,
        )
    )  # fmt: skip
    return found


def drive_ours(
    url: str, *, streams: int, requests: int, answer: int, prompt: int = 32, model: str = "fault", seed: int = 0
) -> dict[str, float]:
    """Our figures, from a process of its own."""
    program = Path(__file__).with_name("load_driver.py")
    asked = {
        "url": url, "model": model, "streams": streams, "requests": requests, "prompt": prompt, "answer": answer,
        "seed": seed,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(program), json.dumps(asked)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"bench: the load generator: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def drive_vllm(
    url: str,
    folder: Path,
    *,
    streams: int,
    requests: int,
    prompt: int,
    answer: int,
    model: str = "fault",
    seed: int = 0,
) -> dict[str, float]:
    """The figures of `vllm bench serve`."""
    name = "vllm-bench.json"
    arguments = [
        "bench", "serve", "--backend", "openai", "--base-url", url, "--model", model, "--tokenizer", str(MODEL),
        "--dataset-name", "random", "--random-input-len", str(prompt), "--random-output-len", str(answer),
        "--ignore-eos", "--num-prompts", str(requests), "--max-concurrency", str(streams), "--disable-tqdm",
        "--save-result", "--result-dir", str(folder), "--result-filename", name, "--seed", str(seed),
        "--ready-check-timeout-sec", "0",
    ]  # fmt: skip
    done = subprocess.run(
        [str(ENGINE), "-c", _VLLM, *arguments], capture_output=True, text=True, check=False, cwd=folder,
        env={**os.environ, **_ENVIRONMENT, "PYTHONPATH": str(_metadata(folder))},
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"bench: vllm bench serve: {done.stderr[-2000:]}")
    found = json.loads((folder / name).read_text())
    return {
        "ttft_s": found["median_ttft_ms"] / 1000, "tpot_s": found["median_tpot_ms"] / 1000,
        "throughput": found["output_throughput"],
    }  # fmt: skip


def drive_guidellm(url: str, folder: Path, *, requests: int) -> None:
    """One run of guidellm."""
    command = [
        str(GUIDELLM), "run", "--backend", f"kind=openai_http,target={url},model=fault,request_format=/v1/completions",
        "--profile", f"kind=concurrent,streams={STREAMS}", "--constraint", f"kind=max_requests,count={requests}",
        "--tokenizer", f"kind=huggingface_auto,model={MODEL}",
        "--data", f"kind=synthetic_text,prompt_tokens=32,output_tokens={ANSWER_TOKENS}",
        "--output", f"kind=json,path={folder / 'guidellm.json'}", "--disable-console-interactive",
    ]  # fmt: skip
    environment = {**os.environ, **_ENVIRONMENT, "GUIDELLM__MAX_CONCURRENCY": str(STREAMS)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    if done.returncode:
        raise SystemExit(f"bench: guidellm: {done.stdout[-1000:]}{done.stderr[-1000:]}")


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
        "--generation-config", "vllm", "--no-enable-prefix-caching",
    ]  # fmt: skip
    environment = {**os.environ, **_ENVIRONMENT, "VLLM_CPU_KVCACHE_SPACE": "1"}
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


def _metadata(folder: Path) -> Path:
    """A folder that names a package `vllm`, which the command of vllm-cpu looks for."""
    home = folder / "metadata" / "vllm-0.32.0+cpu.dist-info"
    home.mkdir(parents=True, exist_ok=True)
    (home / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n")
    return home.parent


if __name__ == "__main__":
    from comparison import table

    with tempfile.TemporaryDirectory() as temporary:
        part = {"cost": client_cost, "agreement": agreement}[sys.argv[1]]
        print(table(part(Path(temporary))))
