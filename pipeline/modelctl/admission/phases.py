"""The phases of an admission: what reads bytes, what loads the model, what is served.

What reads bytes runs first, on the source; only if that found nothing the served tree is made and the model is loaded.
A model that the loading gate refused is never loaded; the checks that would have loaded it say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from modelctl.accuracy.calibration import resolve
from modelctl.accuracy.quantize import Quantized, quantize
from modelctl.admission.evidence import EvidenceFolder
from modelctl.admission.making import require_recipe
from modelctl.admission.own_checks import own_check
from modelctl.admission.policy import LoadedPolicy
from modelctl.admission.resources import RunResources
from modelctl.admission.runner import CheckRun
from modelctl.admission.subject import Subject
from modelctl.admission.waivers import Waivers
from modelctl.checks import CHECK_IDS, LOADING_GATE, load_check
from modelctl.checks.base import CheckContext, Role
from modelctl.checks.fitness import does_not_fit
from modelctl.errors import InputError, ModelctlError
from modelctl.model.config import load_config
from modelctl.model.kinds import recognise
from modelctl.model.release import Calibration
from modelctl.model.tree import Tree
from modelctl.progress import Progress
from modelctl.settings import Workspace


class Phases:
    """The phases of one admission, and what they leave: the checks that ran and the served tree."""

    def __init__(
        self,
        *,
        chosen: Sequence[str],
        subject: Subject,
        policy: LoadedPolicy,
        waivers: Waivers,
        workspace: Workspace,
        resources: RunResources,
        workdir: Path,
        evidence_dir: Path,
        progress: Progress,
    ) -> None:
        own = policy.policy.spec.own_checks
        if unknown := [name for name in chosen if name not in (*CHECK_IDS, *own)]:
            raise InputError(
                f"no check '{unknown[0]}': the policy {policy.name} has {', '.join((*CHECK_IDS, *own))}",
                remedy="own checks are named in the policy's own_checks",
            )
        selected = [name for name in (*CHECK_IDS, *own) if not chosen or name in chosen]
        self.checks = {
            name: CheckRun(
                own_check(name) if name in own else load_check(name), EvidenceFolder(evidence_dir, name), waivers
            )
            for name in selected
        }
        self.served: Tree | None = None
        self._made: Quantized | None = None
        self._state = workspace.state
        self._root = workspace.root
        self._subject = subject
        self._policy = policy.policy
        self._resources = resources
        self._workdir = workdir
        self._progress = progress
        release = subject.release
        self._quantization = release.spec.quantization if release else None
        self._kinds = recognise(subject.source.tree)
        self._base_kinds = recognise(subject.base.tree) if subject.base else None

    def execute(self) -> None:
        """Run everything that may be run."""
        source = self._subject.source.tree
        for kind in self._kinds:
            self._progress.note(f"kind: {kind.name} ({kind.because})")
        if self._quantization is not None:
            require_recipe(source, self._quantization, self._calibration, root=self._root)
        of_trees = [run for run in self.checks.values() if run.check.scope == "tree"]
        gate = [run for run in of_trees if run.check.id in LOADING_GATE]
        loading = [run for run in of_trees if run.check.id not in LOADING_GATE]
        of_release = [run for run in self.checks.values() if run.check.scope == "release"]
        self._on_tree(gate, "source", source)
        if self._gate_closed(loading + of_release, "the model was not loaded"):
            return
        self._on_tree(loading, "source", source)
        if not self._make_served(of_release):
            return
        if self.served is not None and self.served.digest != source.digest:
            self._on_tree(of_trees, "served", self.served)
            if self._gate_closed(of_release, "the served tree was not loaded"):
                return
        self._on_release(of_release)

    def _on_tree(self, runs: Sequence[CheckRun], role: Role, tree: Tree) -> None:
        for run in filter(self._fits, runs):
            self._progress.note(f"{run.check.id}: {role} tree")
            run.run(self._context(run, role, tree), both_trees=self._quantization is not None)

    def _on_release(self, runs: Sequence[CheckRun]) -> None:
        served = self.served or self._subject.source.tree
        base = self._subject.base
        self._resources.serve(served, self._subject.serving, base.tree if base else None)
        for run in filter(self._fits, runs):
            self._progress.note(f"{run.check.id}: started")
            run.run(self._context(run, "served", served), both_trees=False)

    def _fits(self, run: CheckRun) -> bool:
        """Whether a check can judge this kind of repository; one that can't says so in its report."""
        if run.check.id in self._policy.spec.own_checks:
            return True
        reason = does_not_fit(run.check.id, self._kinds, base=self._base_kinds)
        if reason is None:
            return True
        self._progress.note(f"{run.check.id}: does not fit this kind of repository")
        if run.check.id == "quantization" and self._is_quantized():
            # There is something to judge, so a policy's leave to skip (meant for what is not quantised) is no answer.
            run.add_undecided(reason, "name a causal language model, or make the check optional in the policy")
        else:
            run.skip(reason)
        return False

    def _is_quantized(self) -> bool:
        if self._quantization is not None or self._subject.baseline is not None:
            return True
        if any(kind.name == "gguf" for kind in self._kinds):
            return True  # as good as all are, and how many bits are left is no matter of config.json
        try:
            return load_config(self._subject.source.tree).quantization is not None
        except InputError:
            return False

    def _make_served(self, waiting: Sequence[CheckRun]) -> bool:
        if self._quantization is None:
            self.served = self._subject.source.tree
            return True
        reason = does_not_fit("quantization", self._kinds)
        if reason is not None:
            raise InputError(f"spec.quantization: {reason}", remedy="take 'quantization' out of the release file")
        limits = self._policy.spec.checks.quantization
        self._progress.note(f"quantising to {self._quantization.bits} bits ({self._quantization.method})")
        cache, memory_bytes = self._state / "cache", int(limits.memory_limit_gib * (1 << 30))
        try:
            text = resolve(
                self._calibration,
                root=self._root,
                cache=cache,
                progress=self._progress,
                time_limit_s=limits.time_limit_s,
                memory_limit_bytes=memory_bytes,
            )
            self._made = quantize(
                self._subject.source.tree,
                self._quantization,
                text=text,
                staging=self._state / "staging",
                cache=cache,
                sandbox=self._resources.sandbox,
                progress=self._progress,
                time_limit_s=limits.time_limit_s,
                memory_limit_bytes=memory_bytes,
            )
        except InputError:
            raise
        except ModelctlError as error:
            for run in waiting:
                run.add_undecided(f"the served tree could not be made: {error.message}", error.remedy)
            return False
        self.served = self._made.tree
        return True

    @property
    def _calibration(self) -> Calibration | None:
        """The release's, or else the policy's."""
        of_release = self._quantization.calibration if self._quantization else None
        return of_release or self._policy.spec.checks.quantization.calibration

    def _gate_closed(self, waiting: Sequence[CheckRun], what: str) -> bool:
        shut = [run.check.id for run in self.checks.values() if run.check.id in LOADING_GATE and run.has_findings]
        if not shut:
            return False
        for run in waiting:
            run.add_undecided(f"not run: {', '.join(shut)} refused the model, so {what}", "mend those findings first")
        return True

    def _context(self, run: CheckRun, role: Role, tree: Tree) -> CheckContext[Any]:
        cache = self._state / "cache"
        cache.mkdir(exist_ok=True)
        return CheckContext(
            limits=self._policy.limits(run.check.id),
            role=role,
            tree=tree,
            source=self._subject.source,
            served=self.served or self._subject.source.tree,
            quantization=self._quantization,
            made=self._made,
            baseline=self._subject.baseline,
            base=self._subject.base,
            serving=self._subject.serving,
            resources=self._resources,
            evidence=run.evidence,
            progress=self._progress,
            workdir=self._workdir,
            cache=cache,
            root=self._root,
        )
