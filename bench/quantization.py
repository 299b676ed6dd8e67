"""What the check of a quantisation costs over doing the same by hand: GPTQ, then both models' answers.

`modelctl quantize` and `modelctl evaluate` beside three processes that call gptqmodel and lm-eval directly: the same
model, calibration tokens, documents and texts. Processor time of all processes decides, since a busy machine moves it
least; the time that passed is shown beside it. One run each: minutes, not milliseconds, are compared.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from comparison import Row

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / ".cache" / "models" / "SmolLM2-135M-Instruct"
BY_HAND = Path(__file__).with_name("by_hand.py")
SAMPLES, SAMPLE_TOKENS, GROUP_SIZE = 8, 256, 64
QUESTIONS = 128
AT_MOST = 1.05
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Seconds of processor time, in all processes, and seconds that passed."""

    processor_s: float
    passed_s: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(processor_s=self.processor_s + other.processor_s, passed_s=self.passed_s + other.passed_s)


def ready() -> bool:
    """Whether the model and the libraries are there; make setup brings both."""
    return MODEL.is_dir() and all(importlib.util.find_spec(name) for name in ("gptqmodel", "lm_eval"))


def rows(folder: Path, *, model: Path = MODEL) -> list[Row]:
    """Both ways once, ours first: it draws the documents that the other is asked too."""
    _adopt_orphans()
    ours = _ours(folder, model)
    inputs = _inputs(folder)
    other = Cost(processor_s=0, passed_s=0)
    for command in (
        ("quantise", model, folder / "by-hand", inputs),
        ("answer", model, inputs),
        ("answer", folder / "by-hand", inputs),
    ):
        other += _cost([sys.executable, BY_HAND, *command], folder, ends=(0,))
    parameters: dict[str, str | int | float] = {
        "samples": SAMPLES, "sample_tokens": SAMPLE_TOKENS, "group_size": GROUP_SIZE, "questions": QUESTIONS,
        "model": model.name,
    }  # fmt: skip
    return [
        Row(
            figure="quantise and compare, processor time", ours=ours.processor_s, beside="gptqmodel and lm-eval",
            other=other.processor_s, at_most=AT_MOST, parameters=parameters,
        ),
        Row(
            figure="quantise and compare, time passed", ours=ours.passed_s, beside="gptqmodel and lm-eval",
            other=other.passed_s, parameters=parameters,
        ),
    ]  # fmt: skip


def _ours(folder: Path, model: Path) -> Cost:
    program = Path(sys.executable).with_name("modelctl")
    (folder / "modelctl.yaml").write_text("policy: demo\n", encoding="utf-8")
    made = _cost(
        [
            program, "quantize", model, folder / "made", "--group-size", str(GROUP_SIZE), "--samples", str(SAMPLES),
            "--sample-tokens", str(SAMPLE_TOKENS), "--quiet",
        ],
        folder, ends=(0,),
    )  # fmt: skip
    compared = _cost(
        [
            program, "evaluate", folder / "made", "--against", model, "--questions", str(QUESTIONS),
            "--evidence-dir", folder / "evidence", "--quiet",
        ],
        folder, ends=(0, 1, 3),
    )  # fmt: skip
    return made + compared


def _inputs(folder: Path) -> Path:
    """What our run was given and asked, for the other way."""
    from modelctl.accuracy.calibration import shipped
    from modelctl.accuracy.reading import shipped_texts
    from modelctl.checks.limits import QuantizationLimits
    from modelctl.checks.quantization import EVIDENCE

    evidence = folder / "evidence" / "quantization" / EVIDENCE
    report = folder / "evidence" / "report.json"
    if not evidence.is_file():
        log = (folder / "last.log").read_text(encoding="utf-8", errors="replace")
        raise SystemExit(f"bench: modelctl evaluate compared nothing\n{log}")
    documents: dict[str, list[int]] = {}
    for line in evidence.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        documents.setdefault(row["task"], []).append(row["doc_id"])
    path = folder / "inputs.json"
    path.write_text(
        json.dumps(
            {
                "text": shipped().parts[0],
                "samples": SAMPLES,
                "sample_tokens": SAMPLE_TOKENS,
                "group_size": GROUP_SIZE,
                "documents": documents,
                "dtype": _dtype(json.loads(report.read_text(encoding="utf-8"))),
                "batch_size": QuantizationLimits().batch_size,
                "texts": [text.text for text in shipped_texts()],
            }
        ),
        encoding="utf-8",
    )
    return path


def _dtype(report: dict[str, Any]) -> object:
    """In which type our run compared."""
    check = next(check for check in report["checks"] if check["id"] == "quantization")
    return check["measurements"][0]["parameters"]["dtype"]


def _cost(command: Sequence[str | Path], folder: Path, *, ends: Sequence[int]) -> Cost:
    from modelctl.accuracy.tools import worker_environment

    log = folder / "last.log"
    before, begin = _used(), time.perf_counter()
    with log.open("wb") as stream:
        done = subprocess.run(
            [str(part) for part in command], check=False, stdin=subprocess.DEVNULL, stdout=stream,
            stderr=subprocess.STDOUT, cwd=folder, env=os.environ | worker_environment() | {"HF_HUB_OFFLINE": "1"},
        )  # fmt: skip
    passed = time.perf_counter() - begin
    if done.returncode not in ends:
        raise SystemExit(
            f"{' '.join(map(str, command))}: exit {done.returncode}\n{log.read_text(errors='replace')[-3000:]}"
        )
    _reap_orphans()
    return Cost(processor_s=_used() - before, passed_s=passed)


def _used() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _adopt_orphans() -> None:
    """Become the parent of whatever our children leave: bubblewrap's own child is not counted as its parent's else."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _reap_orphans() -> None:
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return
