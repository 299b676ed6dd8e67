"""Make the served tree of a release: the source's weights quantised by gptqmodel in an isolated child, everything
else byte for byte.

The result lies in `staging/<tree digest>` once it is complete, never half-written. It is remembered by the digest of
all that moves it (source, recipe, calibration text, library versions) and hashed again before it is reused. It carries
no path of the machine that made it and none of the calibration text: both are looked for.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelctl import worker
from modelctl.accuracy.assembly import assemble, hold_against_plan, refuse_leaks
from modelctl.accuracy.calibration import CalibrationText, shortcomings
from modelctl.accuracy.estimate import duration
from modelctl.accuracy.plan import Plan, beforehand, plan
from modelctl.accuracy.staging import PARTIAL, Made, find, place, prune, read_made, remember, sweep
from modelctl.accuracy.tools import QUANTISING, cores, has_gpu, versions, worker_environment
from modelctl.errors import CannotDecideError
from modelctl.isolation import Sandbox
from modelctl.model.config import CONFIG_NAME
from modelctl.model.release import Quantization
from modelctl.model.tree import Tree, scan_tree
from modelctl.progress import Progress


@dataclass(frozen=True, kw_only=True)
class Quantized:
    """A quantised model and how it was made."""

    tree: Tree
    made: Made
    reused: bool

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should know who judges it, one sentence each."""
        made = self.made
        found = [
            *shortcomings(samples=made.samples, sample_tokens=made.sample_tokens, text_tokens=made.text_tokens),
        ]
        if made.left_alone:
            found.append(
                f"gptqmodel left {len(made.left_alone)} matrices as they are that no pattern excludes: "
                + ", ".join(made.left_alone[:3])
            )
        if made.device != "cpu":
            found.append("quantised on a GPU: the same recipe may give other bytes another time")
        if made.differs_from is not None:
            found.append(f"the same inputs gave other bytes before ({made.differs_from}): not reproducible here")
        return tuple(found)


def quantize(
    source: Tree,
    spec: Quantization,
    *,
    staging: Path,
    cache: Path,
    sandbox: Sandbox,
    progress: Progress,
    time_limit_s: float,
    memory_limit_bytes: int,
    text: CalibrationText | None = None,
) -> Quantized:
    """The quantised tree of `source`, made or found again; `text` None calibrates with the shipped sample.

    Raises what `plan` raises, and `CannotDecideError` when the child fails, a limit is reached or the output carries
    what it must not.
    """
    wanted = plan(source, spec, cache=cache, text=text)
    before = read_made(wanted.record)
    found = find(before, staging, progress) if before else None
    if before is not None and found is not None:
        progress.note("the quantised model is reused")
        return Quantized(tree=found, made=before, reused=True)
    for line in beforehand(wanted, memory_limit_bytes=memory_limit_bytes):
        progress.note(line)
    staging.mkdir(parents=True, exist_ok=True)
    sweep(staging)
    with tempfile.TemporaryDirectory(dir=staging, prefix=f"{PARTIAL}{os.getpid()}-") as folder:
        output, ready = Path(folder, "output"), Path(folder, "tree")
        output.mkdir()
        ready.mkdir()
        began = time.monotonic()
        answer = _call(wanted, output, sandbox, progress, time_limit_s, memory_limit_bytes)
        seconds = time.monotonic() - began
        weights = assemble(source, wanted.config, output, ready)
        left_alone = hold_against_plan(wanted, weights)
        refuse_leaks(wanted, [*weights, ready / CONFIG_NAME], [output, staging.resolve()])
        tree = scan_tree(ready, progress=progress, label="hash the quantised model")
        made = Made(
            tree_digest=tree.digest,
            recipe_digest=f"sha256:{wanted.record.stem}",
            calibration=wanted.text.origin,
            calibration_sha256=wanted.text.sha256,
            samples=spec.calibration_samples,
            sample_tokens=wanted.sample_tokens,
            text_tokens=int(answer["text_tokens"]),
            modules=int(answer["modules"]),
            left_alone=left_alone,
            device=str(answer["device"]),
            threads=cores(),
            instructions=str(answer["instructions"]),
            versions=dict(versions(QUANTISING)),
            work=wanted.estimate.work,
            seconds=round(seconds, 1),
            peak_memory_bytes=int(answer["peak_memory_bytes"]),
            differs_from=before.tree_digest if before and before.tree_digest != tree.digest else None,
        )
        placed = place(ready, tree, staging)
        remember(made, wanted.record)
    prune(staging, progress)
    return Quantized(tree=placed, made=made, reused=False)


class _Pace:
    """Tells the time that is left once two layers are done: the first is slower than the others."""

    def __init__(self, layers: int, progress: Progress) -> None:
        self._layers = layers
        self._progress = progress
        self._done = 0
        self._last = 0.0

    def told(self, message: Mapping[str, Any]) -> None:
        if not message.get("advance"):
            return
        self._done += 1
        now = time.monotonic()
        if self._done == 2 and self._layers > 2:
            left = (now - self._last) * (self._layers - 2)
            self._progress.note(f"a layer takes {duration(now - self._last)}: about {duration(left)} are left")
        self._last = now


def _call(
    wanted: Plan, output: Path, sandbox: Sandbox, progress: Progress, time_limit_s: float, memory_limit_bytes: int
) -> Mapping[str, Any]:
    spec = wanted.spec
    layers = wanted.config.num_layers
    with progress.task("quantise", total=layers, unit="layers") as task:
        answer = worker.call(
            sandbox,
            "accuracy.quantize_worker",
            {
                "source": str(wanted.source.root),
                "output": str(output),
                "bits": spec.bits,
                "group_size": spec.group_size,
                "desc_act": spec.desc_act,
                "exclude": list(spec.exclude),
                "samples": spec.calibration_samples,
                "sample_tokens": wanted.sample_tokens,
                "seed": spec.seed,
                "dtype": wanted.dtype,
                "widen": wanted.widen,
                "texts": wanted.text.parts,
            },
            readable=wanted.source.folders,
            writable=[output],
            env=worker_environment(),
            devices=has_gpu(),
            time_limit_s=time_limit_s,
            memory_limit_bytes=memory_limit_bytes,
            task=task,
            on_progress=_Pace(layers or 0, progress).told,
        )
    if not isinstance(answer, Mapping):
        raise CannotDecideError(f"the quantising child's answer is malformed: {str(answer)[:80]!r}")
    return answer
