"""Releases and environments for tests of what is rolled out."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from modelctl.documents import parse_yaml, validate
from modelctl.model.release import Gpu, Serving
from modelctl.repository.contents import edited
from modelctl.rollout.environment import Environment
from modelctl.rollout.manifest import ServedRelease
from modelctl.rollout.words import PUBLISHED_FILE

PROJECT = Path(__file__).parents[2]
NOTHING_PUBLISHED = edited((PROJECT / PUBLISHED_FILE).read_text(encoding="utf-8"), {"data": {}})
"""The cluster's list as a new repository has it."""
CRDS = PROJECT.parent / "shared" / "crds"
"""The official schemas of Argo and the Prometheus operator, where they lie beside the project."""
DIGEST = "sha256:" + "5e" * 32
IMAGE = "vllm/vllm-openai@sha256:" + "a1" * 32
PULLER = "registry.example.com/ml/modelctl@sha256:" + "b2" * 32

PLAIN: Mapping[str, Any] = {
    "apiVersion": "modelctl.dev/v1",
    "kind": "Environment",
    "team": "ml",
    "cluster": {"server": "https://kubernetes.default.svc"},
    "namespace": "models-prod",
    "replicas": 9,
    "gpu": {"spare": 1},
    "store": {"endpoint": "http://minio.minio.svc:9000", "credentials_secret": "store"},
    "prometheus": {"address": "http://prometheus.monitoring.svc:9090"},
    "puller": {"image": PULLER},
}


def environment_values(**changes: Any) -> dict[str, Any]:
    """The plain values of an environment file; a dotted key is written `gpu__spare`, and None removes it."""
    values: dict[str, Any] = copy.deepcopy(dict(PLAIN))
    for key, value in changes.items():
        *parents, last = key.split("__")
        target = values
        for parent in parents:
            target = target.setdefault(parent, {})
        if value is None:
            del target[last]
        else:
            target[last] = value
    return values


def an_environment(**changes: Any) -> Environment:
    """An environment."""
    return validate(environment_values(**changes), Environment, origin="environment.yaml")


def a_release(name: str = "tiny", version: str = "1.0.0", *, digest: str = DIGEST) -> ServedRelease:
    """A published release."""
    return ServedRelease(
        name=name,
        version=version,
        tree_digest=digest,
        uri=f"s3://models/{name}/{version}",
        size_bytes=5 << 30,
        signature=f'{{"bundle": "of {name}@{version}"}}',
    )


def a_serving(*, gpus: int = 1, max_model_len: int | None = 8192, image: str | None = IMAGE) -> Serving:
    """How it is served, on `gpus` GPUs with tensor parallelism over all of them."""
    return Serving(image=image, max_model_len=max_model_len, tensor_parallel_size=max(1, gpus), gpu=Gpu(count=gpus))


def documents(text: str) -> Iterator[dict[str, Any]]:
    """The documents of a manifest file, read as strictly as people's own files (duplicate keys are errors)."""
    for part in text.split("\n---\n"):
        yield parse_yaml(f"{part}\n", origin="manifest")
