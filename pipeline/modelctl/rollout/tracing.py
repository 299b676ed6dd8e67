"""OpenTelemetry of the engines, by the variables that every OTLP exporter reads (OpenTelemetry's specification)."""

from __future__ import annotations

from collections.abc import Mapping

from modelctl.rollout.environment import Environment
from modelctl.rollout.manifest import ServedRelease


def variables(environment: Environment, release: ServedRelease, name: str) -> Mapping[str, str]:
    """The exporter's settings; nothing where the environment names no collector."""
    tracing = environment.tracing
    if tracing is None:
        return {}
    attributes = {
        "service.namespace": environment.namespace,
        "service.version": release.version,
        "modelctl.tree_digest": release.tree_digest,
    }
    insecure = {"OTEL_EXPORTER_OTLP_TRACES_INSECURE": "true"} if tracing.endpoint.startswith("http://") else {}
    return {
        "OTEL_SERVICE_NAME": name,
        "OTEL_RESOURCE_ATTRIBUTES": ",".join(f"{key}={value}" for key, value in attributes.items()),
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": tracing.protocol,
        **insecure,
    }
