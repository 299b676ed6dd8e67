"""The KEDA ScaledObject: replicas by the requests in flight, up quickly, down slowly, and never on silence.

Counted are waiting and running requests: by the queue alone a fleet that just keeps up would be taken down. KEDA treats
a missing metric as zero unless it is told otherwise (`ignoreNullValues`); told so, it falls back to the least number.
"""

from __future__ import annotations

from modelctl.rollout.environment import Environment
from modelctl.rollout.labels import labels
from modelctl.rollout.manifest import Manifest, series_of

POLLING_S = 15
DOWN_WINDOW_S = 900
"""Least time of less load before a replica goes: weights take minutes to load again."""
DOWN_EVERY_S = 300
FAILURES = 4
"""Polls without an answer before the fallback holds."""


def scaled_object(environment: Environment, name: str) -> Manifest | None:
    """The manifest; None when the environment says nothing of it."""
    scaling = environment.autoscaling
    if scaling is None:
        return None
    engine = series_of(environment.namespace, name)
    in_flight = " + ".join(f"sum(vllm:num_requests_{state}{{{engine}}})" for state in ("waiting", "running"))
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": name, "namespace": environment.namespace, "labels": labels(name, environment)},
        "spec": {
            "scaleTargetRef": {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": name},
            "pollingInterval": POLLING_S,
            "minReplicaCount": environment.replicas,
            "maxReplicaCount": scaling.max_replicas,
            "fallback": {"failureThreshold": FAILURES, "replicas": environment.replicas},
            "advanced": {
                "horizontalPodAutoscalerConfig": {
                    "behavior": {
                        "scaleDown": {
                            "stabilizationWindowSeconds": DOWN_WINDOW_S,
                            "policies": [{"type": "Pods", "value": 1, "periodSeconds": DOWN_EVERY_S}],
                        }
                    }
                }
            },
            "triggers": [
                {
                    "type": "prometheus",
                    "metricType": "AverageValue",
                    "metadata": {
                        "serverAddress": environment.prometheus.address,
                        "query": in_flight,
                        "threshold": str(scaling.streams_per_replica),
                        "ignoreNullValues": "false",
                    },
                }
            ],
        },
    }
