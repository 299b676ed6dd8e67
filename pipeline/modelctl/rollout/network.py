"""How a release is found, scraped and kept available: Services, PodMonitor, PodDisruptionBudget."""

from __future__ import annotations

from modelctl.rollout.environment import Environment
from modelctl.rollout.labels import labels
from modelctl.rollout.manifest import HASH_LABEL, NAME_LABEL, Manifest


def services(environment: Environment, name: str) -> tuple[Manifest, ...]:
    """Stable and canary, whose selectors the controller narrows to a pod hash; for `replicas` also one over both."""
    names = [f"{name}-stable", f"{name}-canary"]
    if environment.router.kind == "replicas":
        names.insert(0, name)
    return tuple(_service(environment, name, service) for service in names)


def pod_monitor(environment: Environment, name: str) -> Manifest:
    """Scrapes each pod once, where a ServiceMonitor would once a Service, and keeps the hash that tells the canary."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": _metadata(environment, name, name),
        "spec": {
            "selector": {"matchLabels": {NAME_LABEL: name}},
            "podTargetLabels": [NAME_LABEL, HASH_LABEL],
            "podMetricsEndpoints": [
                {"port": "http", "path": "/metrics", "interval": f"{environment.prometheus.scrape_interval_s}s"}
            ],
        },
    }


def disruption_budget(environment: Environment, name: str) -> Manifest:
    """One pod at a time may be taken away for maintenance."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _metadata(environment, name, name),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {NAME_LABEL: name}}},
    }


def _service(environment: Environment, name: str, service: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(environment, name, service),
        "spec": {
            "type": "ClusterIP",
            "selector": {NAME_LABEL: name},
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        },
    }


def _metadata(environment: Environment, name: str, own: str) -> Manifest:
    return {"name": own, "namespace": environment.namespace, "labels": labels(name, environment)}
