"""What a cluster says of a rollout, read through kubectl; what can't be read is a sentence, never a state.

Nothing is written to the cluster. The fields are those of Argo Rollouts' `RolloutStatus`
(pkg/apis/rollouts/v1alpha1/types.go): phase, message, currentStepIndex, abort, canary.weights.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modelctl.rollout.words import RELEASE_ANNOTATION

TIMEOUT_S = 10.0


@dataclass(frozen=True, kw_only=True)
class ClusterState:
    """One Rollout as the cluster has it."""

    release: str | None
    """The release that its pods' template names."""
    phase: str
    """Healthy, Progressing, Paused, Degraded; Unknown when the controller has said nothing yet."""
    message: str
    canary_percent: int | None
    """Share of the traffic that the canary has; None when the status does not say."""
    aborted: bool

    def __str__(self) -> str:
        words = [self.phase, *([f"canary {self.canary_percent} %"] if self.canary_percent is not None else [])]
        return ", ".join([*words, *(["aborted"] if self.aborted else []), *([self.message] if self.message else [])])


@dataclass(frozen=True, kw_only=True)
class NotRead:
    """Why a cluster's word is missing."""

    reason: str

    def __str__(self) -> str:
        return f"not asked: {self.reason}"


def cluster_state(name: str, namespace: str, *, context: str | None = None) -> ClusterState | NotRead:
    """The Rollout `name` of a namespace, in the cluster of kubectl's current context or of another one."""
    if shutil.which("kubectl") is None:
        return NotRead(reason="kubectl is not installed")
    chosen = ["--context", context] if context else []
    command = ["kubectl", *chosen, "get", "rollouts.argoproj.io", name, "-n", namespace, "-o", "json"]
    try:
        done = subprocess.run(
            [*command, f"--request-timeout={TIMEOUT_S:g}s"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=2 * TIMEOUT_S,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return NotRead(reason=f"kubectl: {error}")
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return NotRead(reason=lines[-1] if lines else f"kubectl ended with {done.returncode}")
    try:
        return _state(json.loads(done.stdout))
    except (ValueError, TypeError, AttributeError, KeyError):
        return NotRead(reason="kubectl printed something that is no Rollout")


def _state(rollout: Mapping[str, Any]) -> ClusterState:
    status = rollout.get("status") or {}
    annotations = rollout["spec"]["template"]["metadata"].get("annotations") or {}
    weights = (status.get("canary") or {}).get("weights") or {}
    percent = (weights.get("canary") or {}).get("weight")
    return ClusterState(
        release=annotations.get(RELEASE_ANNOTATION),
        phase=str(status.get("phase") or "Unknown"),
        message=" ".join(str(status.get("message") or "").split()),
        canary_percent=percent if isinstance(percent, int) else None,
        aborted=status.get("abort") is True,
    )
