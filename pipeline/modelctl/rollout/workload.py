"""The Rollout: one engine container, every flag spelled out, behind an init container that verifies the weights.

The pod runs without root, without a service-account token and on a read-only file system; the engine writes to /tmp.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from modelctl.errors import InputError
from modelctl.model.release import Serving
from modelctl.rollout.canary import strategy
from modelctl.rollout.environment import Environment
from modelctl.rollout.labels import labels
from modelctl.rollout.manifest import NAME_LABEL, Json, Manifest, ServedRelease

PORT = 8000
PRE_STOP_S = 15
"""Time for endpoints and gateways to forget a pod before its engine stops to listen."""
USER_ID = 10001
SCRATCH = "/tmp"  # noqa: S108 - a volume of the pod, not a folder here
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the same
_PROBE_PERIOD_S = 10
_KEEP_REVISIONS = 5
_SECURITY: Manifest = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}


def rollout(release: ServedRelease, serving: Serving, environment: Environment, name: str) -> Manifest:
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
                "metadata": {"labels": labels(name, environment), "annotations": release.annotations},
                "spec": _pod(release, serving, environment, name),
            },
        },
    }


def gpus_per_replica(serving: Serving, environment: Environment) -> int:
    """GPUs of one replica. Raises `InputError` when they don't fit the tensor parallelism."""
    count = serving.gpu.count if environment.gpu.count is None else environment.gpu.count
    if count not in (0, serving.tensor_parallel_size):
        raise InputError(
            f"a replica gets {count} GPUs, but tensor_parallel_size is {serving.tensor_parallel_size}",
            remedy="make gpu.count and tensor_parallel_size equal in release.yaml",
        )
    return count


def engine_arguments(release: ServedRelease, serving: Serving, environment: Environment) -> tuple[str, ...]:
    """The engine's arguments; defaults differ between engine versions, so nothing is left to them."""
    if serving.max_model_len is None:
        raise InputError(
            f"{release.id}: spec.serving.max_model_len is not set; a rollout leaves nothing to the engine's defaults",
            remedy="set it in release.yaml to the length that the long-context check measured, as a new version",
        )
    flags: dict[str, int | float | str] = {
        "--host": "0.0.0.0",  # noqa: S104 - a pod is reached through its Service
        "--port": PORT,
        "--served-model-name": release.name,
        "--generation-config": "vllm",
        "--max-model-len": serving.max_model_len,
        "--max-num-seqs": serving.max_num_seqs,
        "--max-num-batched-tokens": serving.max_num_batched_tokens,
        "--tensor-parallel-size": serving.tensor_parallel_size,
        "--block-size": serving.block_size or environment.engine.block_size,
        "--shutdown-timeout": environment.engine.shutdown_timeout_s,
    }
    if gpus_per_replica(serving, environment):
        flags["--gpu-memory-utilization"] = serving.gpu_memory_utilization
    return (weights_path(release), *(f"{flag}={value}" for flag, value in flags.items()))


def weights_path(release: ServedRelease) -> str:
    """Where the verified weights lie in the pod."""
    return f"/models/{release.name}"


def _pod(release: ServedRelease, serving: Serving, environment: Environment, name: str) -> Manifest:
    gpus = gpus_per_replica(serving, environment)
    resource = environment.gpu.resource or serving.gpu.resource
    product = environment.gpu.product or serving.gpu.product
    placement: dict[str, Json] = {}
    if gpus:
        placement["tolerations"] = [{"key": resource, "operator": "Exists", "effect": "NoSchedule"}]
    if gpus and product:
        placement["nodeSelector"] = {"nvidia.com/gpu.product": product}
    volumes: list[Json] = [
        # A tenth more than the files: the download keeps a part file of the one in work.
        {"name": "weights", "emptyDir": {"sizeLimit": f"{max(1, math.ceil(release.size_bytes * 1.1 / 2**30))}Gi"}},
        {"name": "scratch", "emptyDir": {"sizeLimit": environment.engine.scratch}},
    ]
    if serving.tensor_parallel_size > 1:
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory"}})
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
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
        "containers": [_engine(release, serving, environment)],
        "volumes": volumes,
    }


def _puller(release: ServedRelease, environment: Environment) -> Manifest:
    words = {
        "release": release.id,
        "target": weights_path(release),
        "digest": release.tree_digest,
        "uri": release.uri,
    }
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
        "name": "verified-weights",
        "image": environment.puller.image,
        "command": [_fill(word, words) for word in environment.puller.command],
        "env": variables,
        "resources": _resources({"cpu": "2", "memory": "2Gi"}),
        "securityContext": _SECURITY,
        "volumeMounts": [{"name": "weights", "mountPath": "/models"}, {"name": "scratch", "mountPath": SCRATCH}],
    }


def _engine(release: ServedRelease, serving: Serving, environment: Environment) -> Manifest:
    image = environment.engine.image or serving.image
    if image is None:
        raise InputError(
            f"{release.id}: no engine image",
            remedy="set engine.image in environment.yaml (name@sha256:…), or spec.serving.image in a new version",
        )
    gpus = gpus_per_replica(serving, environment)
    amounts: dict[str, str | int] = {"cpu": environment.engine.cpu, "memory": environment.engine.memory}
    variables = {
        "HOME": SCRATCH,
        "XDG_CACHE_HOME": f"{SCRATCH}/.cache",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
    }
    if gpus:
        amounts[environment.gpu.resource or serving.gpu.resource] = gpus
    else:
        variables["VLLM_CPU_KVCACHE_SPACE"] = str(environment.engine.cpu_kv_cache_gib)
    mounts: list[Json] = [
        {"name": "weights", "mountPath": "/models", "readOnly": True},
        {"name": "scratch", "mountPath": SCRATCH},
    ]
    if serving.tensor_parallel_size > 1:
        mounts.append({"name": "shm", "mountPath": SHARED_MEMORY})
    return {
        "name": "engine",
        "image": image,
        "command": environment.engine.command,
        "args": engine_arguments(release, serving, environment),
        "env": [{"name": key, "value": value} for key, value in variables.items()],
        "ports": [{"name": "http", "containerPort": PORT}],
        "resources": _resources(amounts),
        # The port opens only when the engine has loaded, compiled and profiled.
        "startupProbe": _probe(math.ceil(environment.engine.load_timeout_s / _PROBE_PERIOD_S)),
        "readinessProbe": _probe(2),
        # /health answers 503 for a dead engine and 200 for a hung one: the canary's stall measurement is for that.
        "livenessProbe": _probe(6),
        "lifecycle": {"preStop": {"sleep": {"seconds": PRE_STOP_S}}},
        "securityContext": _SECURITY,
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
