"""The labels that every object of a model carries."""

from __future__ import annotations

from collections.abc import Mapping

from modelctl.rollout.environment import Environment
from modelctl.rollout.manifest import NAME_LABEL

BEFORE_PODS: Mapping[str, str] = {"argocd.argoproj.io/sync-wave": "-1"}
"""Of what the Rollout or its pods need to be there already, and what is never unhealthy: Argo CD waits for it."""


def labels(name: str, environment: Environment) -> Mapping[str, str]:
    """Labels of every object. None of them changes from one release to the next."""
    return {NAME_LABEL: name, "app.kubernetes.io/managed-by": "modelctl", "modelctl.dev/team": environment.team}
