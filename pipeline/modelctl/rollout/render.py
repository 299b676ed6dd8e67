"""A release and an environment become the files that Argo CD syncs: a pure function, equal input gives equal bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from modelctl.model.release import Serving
from modelctl.rollout import (
    alerts,
    analysis,
    canary,
    dashboards,
    flags,
    network,
    routes,
    signatures,
    streaming,
    workload,
)
from modelctl.rollout.autoscaling import scaled_object
from modelctl.rollout.environment import Environment
from modelctl.rollout.evidence import Evidence
from modelctl.rollout.front import resources as front
from modelctl.rollout.manifest import Manifest, ServedRelease, dump, resource_name
from modelctl.rollout.network_policy import OPEN_NOTE, network_policy
from modelctl.rollout.words import ROLLOUT_FILE

FILES = (
    ROLLOUT_FILE,
    "services.yaml",
    "route.yaml",
    "analysis.yaml",
    "monitoring.yaml",
    "alerts.yaml",
    "disruption.yaml",
    "network-policy.yaml",
    "autoscaling.yaml",
    "model-validation.yaml",
    "front.yaml",
    "dashboards.yaml",
    "kustomization.yaml",
)
"""Every file that a rendered folder may hold."""

_HEADER = "# Written by modelctl rollout for {release}: change environment.yaml or the release, and run it again.\n"


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """The manifests of one release in one environment."""

    files: Mapping[str, str]
    """File name to YAML text."""
    shares: tuple[canary.Share, ...]
    """What each canary weight really gives."""
    notes: tuple[str, ...]
    """What a person should know, one sentence each."""


def render(
    release: ServedRelease, serving: Serving, environment: Environment, evidence: Evidence | None = None
) -> Rendered:
    """Render all files. Raises `InputError` for what must not be guessed or can't work in this environment."""
    manifests = render_manifests(release, serving, environment, evidence)
    header = _HEADER.format(release=release.id)
    gpus = flags.gpus_per_replica(serving, environment)
    shares = canary.shares(environment, gpus)
    canary.require_possible(environment, shares, gpus)
    return Rendered(
        files={file: header + dump(documents) for file, documents in manifests.items()},
        shares=shares,
        notes=(
            *canary.notes(environment, shares, gpus),
            *flags.notes(release, serving, environment, evidence or Evidence()),
            *([streaming.NOTE] if environment.weights == "stream" else []),
            *([front.NOTE] if environment.front and environment.front.replicas > 1 else []),
            *([signatures.IMAGE_NOTE] if environment.model_validation else []),
            *([] if environment.network else [OPEN_NOTE]),
        ),
    )


def render_manifests(
    release: ServedRelease, serving: Serving, environment: Environment, evidence: Evidence | None = None
) -> Mapping[str, tuple[Manifest, ...]]:
    """The same as plain values: file name to the manifests in it."""
    name = resource_name(release.name)
    gpus = flags.gpus_per_replica(serving, environment)
    route = routes.route(environment, name)
    policy = network_policy(environment, name)
    scaled = scaled_object(environment, name)
    validation = signatures.model_validation(environment, release, name)
    gateway = front.front(release, serving, environment, name)
    boards = dashboards.config_maps(environment, name, gpus=gpus)
    files: dict[str, tuple[Manifest, ...]] = {
        ROLLOUT_FILE: (workload.rollout(release, serving, environment, name, evidence),),
        "services.yaml": network.services(environment, name),
        **({"route.yaml": (route,)} if route is not None else {}),
        "analysis.yaml": (analysis.template(environment, name),),
        "monitoring.yaml": (network.pod_monitor(environment, name),),
        "alerts.yaml": (alerts.rule(environment, name, gpus=gpus),),
        "disruption.yaml": (network.disruption_budget(environment, name),),
        **({"autoscaling.yaml": (scaled,)} if scaled is not None else {}),
        **({"network-policy.yaml": (policy,)} if policy is not None else {}),
        **({"model-validation.yaml": validation} if validation else {}),
        **({"front.yaml": gateway} if gateway else {}),
        **({"dashboards.yaml": boards} if boards else {}),
    }
    kustomization: Manifest = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": tuple(files),
    }
    return {**files, "kustomization.yaml": (kustomization,)}
