"""A release and an environment become the files that Argo CD syncs: a pure function, equal input gives equal bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from modelctl.model.release import Serving
from modelctl.rollout import alerts, analysis, canary, network, routes, workload
from modelctl.rollout.autoscaling import scaled_object
from modelctl.rollout.environment import Environment
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


def render(release: ServedRelease, serving: Serving, environment: Environment) -> Rendered:
    """Render all files. Raises `InputError` for what must not be guessed or can't work in this environment."""
    manifests = render_manifests(release, serving, environment)
    header = _HEADER.format(release=release.id)
    gpus = workload.gpus_per_replica(serving, environment)
    shares = canary.shares(environment, gpus)
    return Rendered(
        files={file: header + dump(documents) for file, documents in manifests.items()},
        shares=shares,
        notes=(*canary.notes(environment, shares, gpus), *([] if environment.network else [OPEN_NOTE])),
    )


def render_manifests(
    release: ServedRelease, serving: Serving, environment: Environment
) -> Mapping[str, tuple[Manifest, ...]]:
    """The same as plain values: file name to the manifests in it."""
    name = resource_name(release.name)
    route = routes.route(environment, name)
    policy = network_policy(environment, name)
    scaled = scaled_object(environment, name)
    files: dict[str, tuple[Manifest, ...]] = {
        ROLLOUT_FILE: (workload.rollout(release, serving, environment, name),),
        "services.yaml": network.services(environment, name),
        **({"route.yaml": (route,)} if route is not None else {}),
        "analysis.yaml": (analysis.template(environment, name),),
        "monitoring.yaml": (network.pod_monitor(environment, name),),
        "alerts.yaml": (alerts.rule(environment, name, gpus=workload.gpus_per_replica(serving, environment)),),
        "disruption.yaml": (network.disruption_budget(environment, name),),
        **({"autoscaling.yaml": (scaled,)} if scaled is not None else {}),
        **({"network-policy.yaml": (policy,)} if policy is not None else {}),
    }
    kustomization: Manifest = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": tuple(files),
    }
    return {**files, "kustomization.yaml": (kustomization,)}
