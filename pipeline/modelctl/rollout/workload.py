"""The Rollout: one engine container behind an init container that verifies the weights.

The pod runs without root, without a service-account token and on a read-only file system; the engine writes to /tmp.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from modelctl.errors import InputError
from modelctl.model.release import Serving
from modelctl.rollout import signatures, streaming, tracing
from modelctl.rollout.canary import strategy
from modelctl.rollout.environment import Environment
from modelctl.rollout.evidence import Evidence
from modelctl.rollout.flags import PORT, engine_arguments, gpus_per_replica, weights_path
from modelctl.rollout.labels import labels
from modelctl.rollout.manifest import NAME_LABEL, Json, Manifest, ServedRelease
from modelctl.rollout.privileges import container_security, pod_security

PRE_STOP_S = 15
"""Time for endpoints and gateways to forget a pod before its engine stops to listen."""
SCRATCH = "/tmp"  # noqa: S108 - a volume of the pod, not a folder here
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the same
_PROBE_PERIOD_S = 10
_KEEP_REVISIONS = 5


def rollout(
    release: ServedRelease, serving: Serving, environment: Environment, name: str, evidence: Evidence | None = None
) -> Manifest:
    """The Rollout manifest. `replicas` stands in it only where no autoscaler owns it.

    Raises `InputError` when the release or the environment leaves something open that must not be guessed.
    """
    gpus = gpus_per_replica(serving, environment)
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Rollout",
        "metadata": {
            "name": name,
            "namespace": environment.namespace,
            "labels": labels(name, environment),
            "annotations": release.annotations,
        },
        "spec": {
            **({"replicas": environment.replicas} if environment.autoscaling is None else {}),
            "revisionHistoryLimit": _KEEP_REVISIONS,
            "progressDeadlineSeconds": 2 * environment.engine.load_timeout_s,
            "progressDeadlineAbort": True,
            "selector": {"matchLabels": {NAME_LABEL: name}},
            "strategy": strategy(environment, name, gpus),
            "template": {
                "metadata": {
                    "labels": {**labels(name, environment), **signatures.pod_labels(environment, name)},
                    "annotations": release.annotations,
                },
                "spec": _pod(release, serving, environment, name, evidence),
            },
        },
    }


def _pod(
    release: ServedRelease, serving: Serving, environment: Environment, name: str, evidence: Evidence | None
) -> Manifest:
    gpus = gpus_per_replica(serving, environment)
    resource = environment.gpu.resource or serving.gpu.resource
    product = environment.gpu.product or serving.gpu.product
    placement: dict[str, Json] = {}
    if gpus:
        placement["tolerations"] = [{"key": resource, "operator": "Exists", "effect": "NoSchedule"}]
    if gpus and product:
        placement["nodeSelector"] = {"nvidia.com/gpu.product": product}
    volumes: list[Json] = []
    if environment.weights == "pull":
        # A tenth more than the files: the download keeps a part file of the one in work.
        size = f"{max(1, math.ceil(release.size_bytes * 1.1 / 2**30))}Gi"
        volumes.append({"name": "weights", "emptyDir": {"sizeLimit": size}})
    volumes.append({"name": "scratch", "emptyDir": {"sizeLimit": environment.engine.scratch}})
    volumes += signatures.volumes(environment, release, name)
    if serving.tensor_parallel_size > 1:
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory"}})
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": pod_security(),
        "terminationGracePeriodSeconds": PRE_STOP_S + environment.engine.shutdown_timeout_s + 30,
        **placement,
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {NAME_LABEL: name}},
            }
        ],
        "initContainers": [_puller(release, environment)],
        "containers": [_engine(release, serving, environment, name, evidence)],
        "volumes": volumes,
    }


def _puller(release: ServedRelease, environment: Environment) -> Manifest:
    words = {
        "release": release.id,
        "target": weights_path(release),
        "digest": release.tree_digest,
        "uri": release.uri,
        "bucket": f"s3://{environment.store.bucket}",
    }
    streamed = environment.weights == "stream"
    command = environment.puller.check_command if streamed else environment.puller.command
    mounts: list[Json] = [] if streamed else [{"name": "weights", "mountPath": "/models"}]
    secret = environment.store.credentials_secret
    variables: list[Json] = [
        {"name": "HOME", "value": SCRATCH},
        {"name": "MODELCTL_STATE_DIR", "value": f"{SCRATCH}/modelctl"},
        {"name": "MODELCTL_STORE_ENDPOINT", "value": environment.store.endpoint},
        {"name": "MODELCTL_STORE_BUCKET", "value": environment.store.bucket},
    ]
    variables += [
        {"name": f"MODELCTL_STORE_{key.upper()}", "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
        for key in ("access_key", "secret_key")
    ]
    return {
        "name": "verified-bucket" if streamed else "verified-weights",
        "image": environment.puller.image,
        "command": [_fill(word, words) for word in command],
        "env": variables,
        "resources": _resources({"cpu": "2", "memory": "2Gi"}),
        "securityContext": container_security(),
        "volumeMounts": [*mounts, {"name": "scratch", "mountPath": SCRATCH}],
    }


def _engine(
    release: ServedRelease, serving: Serving, environment: Environment, name: str, evidence: Evidence | None
) -> Manifest:
    image = environment.engine.image or serving.image
    if image is None:
        raise InputError(
            f"{release.id}: no engine image",
            remedy="set engine.image in environment.yaml (name@sha256:…), or spec.serving.image in a new version",
        )
    gpus = gpus_per_replica(serving, environment)
    amounts: dict[str, str | int] = {"cpu": environment.engine.cpu, "memory": environment.engine.memory}
    variables: dict[str, str] = {
        "HOME": SCRATCH,
        "XDG_CACHE_HOME": f"{SCRATCH}/.cache",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_LOGGING_LEVEL": "INFO",
        **tracing.variables(environment, release, name),
    }
    if gpus:
        amounts[environment.gpu.resource or serving.gpu.resource] = gpus
    else:
        variables["VLLM_CPU_KVCACHE_SPACE"] = str(environment.engine.cpu_kv_cache_gib)
    given: list[Json] = [{"name": key, "value": value} for key, value in variables.items()]
    mounts: list[Json] = []
    if environment.weights == "pull":
        mounts.append({"name": "weights", "mountPath": "/models", "readOnly": True})
    mounts += [{"name": "scratch", "mountPath": SCRATCH}, *signatures.mounts(environment)]
    if serving.tensor_parallel_size > 1:
        mounts.append({"name": "shm", "mountPath": SHARED_MEMORY})
    return {
        "name": "engine",
        "image": image,
        "command": environment.engine.command,
        "args": engine_arguments(release, serving, environment, evidence),
        "env": [*given, *streaming.variables(environment)],
        "ports": [{"name": "http", "containerPort": PORT}],
        "resources": _resources(amounts),
        # The port opens only when the engine has loaded, compiled and profiled.
        "startupProbe": _probe(math.ceil(environment.engine.load_timeout_s / _PROBE_PERIOD_S)),
        "readinessProbe": _probe(2),
        # /health answers 503 for a dead engine and 200 for a hung one: the canary's stall measurement is for that.
        "livenessProbe": _probe(6),
        "lifecycle": {"preStop": {"sleep": {"seconds": PRE_STOP_S}}},
        "securityContext": container_security(),
        "volumeMounts": mounts,
    }


def _probe(failures: int) -> Manifest:
    return {
        "httpGet": {"path": "/health", "port": "http"},
        "periodSeconds": _PROBE_PERIOD_S,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _resources(amounts: Mapping[str, str | int]) -> Manifest:
    return {"requests": amounts, "limits": amounts}


def _fill(word: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        word = word.replace(f"{{{name}}}", value)
    return word
