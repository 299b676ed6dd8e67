"""Quantising without judging: any source that an admission takes, made into a folder of a person's own.

The same child, limits and isolation as in an admission, and the same store: an admission of a release with this recipe
finds the model made.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from modelctl.accuracy.calibration import CalibrationText, from_file, from_registry, resolve
from modelctl.accuracy.layers import check_specification, linear_layers
from modelctl.accuracy.plan import Plan, plan
from modelctl.accuracy.quantize import Quantized, quantize
from modelctl.admission.policy import load_policy
from modelctl.admission.subject import Subject, resolve_subject
from modelctl.checks.fitness import does_not_fit
from modelctl.checks.limits import QuantizationLimits
from modelctl.documents import validate
from modelctl.errors import CannotDecideError, InputError
from modelctl.isolation import Sandbox
from modelctl.model.kinds import recognise
from modelctl.model.release import Calibration, Quantization
from modelctl.model.tree import Tree, scan_tree
from modelctl.progress import Progress
from modelctl.settings import Workspace


@dataclass(frozen=True, kw_only=True)
class Order:
    """What to quantise, how, and where to."""

    repo: str
    out: Path
    workspace: Workspace
    changes: Mapping[str, object]
    """Keys of the recipe that differ from the release's, or from the defaults."""
    calibration: Path | None = None
    policy: str | None = None


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """An order that was held against the model."""

    order: Order
    subject: Subject
    limits: QuantizationLimits
    text: CalibrationText
    plan: Plan

    @property
    def memory_limit_bytes(self) -> int:
        """What the policy allows the child."""
        return int(self.limits.memory_limit_gib * (1 << 30))


def prepare(order: Order, progress: Progress) -> Prepared:
    """Fetch the source and hold the recipe against it; nothing is loaded.

    Raises `InputError` for an OUT that is not empty or lies in the source, and for a recipe that does not fit.
    """
    _require_empty(order.out)
    workspace = order.workspace
    subject = resolve_subject(order.repo, workspace, progress)
    named = subject.release.spec.policy if subject.release else None
    policy = load_policy(order.policy or named or workspace.settings.policy, workspace.root).policy
    if policy.spec.isolation == "required" and Sandbox().kind == "none":
        raise CannotDecideError(
            "the policy requires isolation, and this machine gives none", remedy="modelctl doctor says what is missing"
        )
    source = subject.source.tree
    if order.out.resolve().is_relative_to(source.root):
        raise InputError(f"{order.out}: lies in the source itself", remedy="name a folder beside it")
    reason = does_not_fit("quantization", recognise(source))
    if reason is not None:
        raise InputError(f"{order.repo}: {reason}", remedy="name a causal language model")
    limits = policy.spec.checks.quantization
    released = subject.release.spec.quantization if subject.release else None
    spec = _recipe(released, order.changes)
    cache = workspace.make_state() / "cache"
    text = (
        from_file(order.calibration)
        if order.calibration is not None
        else resolve(
            spec.calibration or limits.calibration,
            root=workspace.root,
            cache=cache,
            progress=progress,
            time_limit_s=limits.time_limit_s,
            memory_limit_bytes=int(limits.memory_limit_gib * (1 << 30)),
        )
    )
    return Prepared(
        order=order, subject=subject, limits=limits, text=text, plan=plan(source, spec, cache=cache, text=text)
    )


def require_recipe(source: Tree, spec: Quantization, calibration: Calibration | None, *, root: Path) -> None:
    """Hold a release's wishes against its files before the first check runs, which may take an hour.

    Raises `InputError` for a calibration file that is missing or malformed and for a recipe that does not fit the
    layers. Weights that can't be read are left to the check `integrity`.
    """
    if calibration is not None and calibration.file is not None:
        from_registry(calibration.file, root=root, column=calibration.column)
    try:
        readable = bool(linear_layers(source))
    except InputError:
        readable = False
    if readable:
        check_specification(source, spec)


def make(prepared: Prepared, progress: Progress) -> Quantized:
    """Quantise, or find it made, and put a copy to OUT, whole or not at all. Raises what `quantize` raises."""
    state = prepared.order.workspace.make_state()
    made = quantize(
        prepared.subject.source.tree,
        prepared.plan.spec,
        text=prepared.text,
        staging=state / "staging",
        cache=state / "cache",
        sandbox=Sandbox(),
        progress=progress,
        time_limit_s=prepared.limits.time_limit_s,
        memory_limit_bytes=prepared.memory_limit_bytes,
    )
    _copy(made.tree, prepared.order.out, progress)
    return made


def _recipe(released: Quantization | None, changes: Mapping[str, object]) -> Quantization:
    base = (released or Quantization()).model_dump()
    return validate(
        {**base, **{key: value for key, value in changes.items() if value is not None}},
        Quantization,
        origin="the recipe",
    )


def _require_empty(out: Path) -> None:
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise InputError(f"{out}: not a folder", remedy="name a new folder")
    if out.is_dir() and any(out.iterdir()):
        raise InputError(f"{out}: not empty; nothing is overwritten", remedy="name a new folder, or empty this one")
    if not out.absolute().parent.is_dir():
        raise InputError(f"{out}: the folder above it does not exist", remedy=f"mkdir -p {out.absolute().parent}")


def _copy(tree: Tree, out: Path, progress: Progress) -> None:
    """A copy, not links: what a person does to OUT must not reach the kept model."""
    with tempfile.TemporaryDirectory(dir=out.absolute().parent, prefix=f".{out.name}.") as folder:
        ready = Path(folder, "tree")
        with progress.task(f"copy to {out.name}", total=tree.size_bytes, unit="bytes") as task:
            for entry in tree.files:
                target = ready / entry.path
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(tree.location(entry.path), target)
                task.advance(entry.size_bytes)
        if scan_tree(ready, progress=progress, label="hash the copy").digest != tree.digest:
            raise CannotDecideError(f"{out}: the copy differs from what was made", remedy="check the disk, then again")
        ready.rename(out)  # an empty folder is replaced
