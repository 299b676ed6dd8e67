"""Rendered folders, as golden files of five kinds of environment: `pytest --update-golden` writes them anew."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

import pytest

from modelctl.errors import InputError
from modelctl.rollout.render import FILES, render
from tests.support.rollouts import a_release, a_serving, an_environment, documents

GATEWAY = {
    "kind": "gateway-api",
    "gateway": {"name": "public", "namespace": "gateways"},
    "hostnames": ["llm.example.com"],
}
ISTIO = {"kind": "istio", "istio_gateways": ["istio-system/public"], "hostnames": ["llm.example.com"]}
NGINX = {"kind": "nginx", "tls_secret": "llm-tls", "hostnames": ["llm.example.com"]}
SCALING = {"max_replicas": 20, "streams_per_replica": 24}
NETWORK = {
    "clients": ["apps"],
    "monitoring": "monitoring",
    "egress": [{"cidr": "10.0.0.0/24", "port": 6379}],
}
FRONT = {
    "image": "ghcr.io/berriai/litellm@sha256:" + "c3" * 32,
    "keys_secret": "gateway-keys",
    "fallback_answer": "Please ask again in a minute.",
}
KINDS: dict[str, tuple[dict[str, Any], int]] = {
    "replicas": ({}, 1),
    "gateway": (
        {
            "router": GATEWAY,
            "network": NETWORK,
            "replicas": 2,
            "gpu": {"spare": 8, "product": "NVIDIA-H100-80GB-HBM3"},
            "model_validation": {"public_key": "model-key"},
            "tracing": {"endpoint": "http://collector.observability.svc:4317"},
        },
        4,
    ),
    "istio": ({"router": ISTIO, "gpu": {"spare": 9}, "weights": "stream"}, 1),
    "nginx": ({"router": NGINX, "gpu": {"spare": 9}, "autoscaling": SCALING, "dashboards": {}}, 1),
    "cpu": (
        {
            "gpu": {"count": 0, "spare": 1},
            "replicas": 4,
            "engine": {"block_size": 128, "memory": "6Gi"},
            "network": NETWORK,
            "front": FRONT,
        },
        1,
    ),
}


def rendered(kind: str) -> dict[str, str]:
    changes, gpus = KINDS[kind]
    return dict(render(a_release(), a_serving(gpus=gpus), an_environment(**changes)).files)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_is_as_reviewed(kind: str, golden: Callable[[str, str], None]) -> None:
    files = rendered(kind)
    assert set(files) <= set(FILES)
    for name, text in files.items():
        golden(f"rollout/{kind}/{name}", text)


def test_what_pods_need_is_synced_before_them() -> None:
    wave = "argocd.argoproj.io/sync-wave"
    early, late = set(), set()
    for kind in KINDS:
        for text in rendered(kind).values():
            for document in documents(text):
                annotations = document.get("metadata", {}).get("annotations") or {}
                (early if annotations.get(wave) == "-1" else late).add(document["kind"])
    assert early == {"AnalysisTemplate", "VirtualService", "ModelValidation", "ConfigMap"}
    assert {"Rollout", "ScaledObject", "Service"} <= late


def test_equal_input_gives_equal_bytes() -> None:
    assert rendered("gateway") == rendered("gateway")


def test_one_changed_field_makes_a_diff_of_that_field_only() -> None:
    before = render(a_release(), a_serving(), an_environment()).files
    after = render(a_release(), a_serving(), an_environment(engine__memory="96Gi")).files
    changed = [
        line
        for name in before
        for line in difflib.unified_diff(before[name].splitlines(), after[name].splitlines(), lineterm="", n=0)
        if line[0] in "+-" and not line.startswith(("+++", "---"))
    ]
    assert {line.strip("+- ") for line in changed} == {"memory: 64Gi", "memory: 96Gi"}


@pytest.mark.parametrize(
    ("serving", "changes", "words"),
    [
        (a_serving(max_model_len=None), {}, "max_model_len is not set"),
        (a_serving(image=None), {}, "no engine image"),
        (a_serving(gpus=2), {"gpu": {"count": 1, "spare": 1}}, "tensor_parallel_size is 2"),
    ],
)
def test_what_is_left_open_is_refused_and_not_guessed(serving: Any, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        render(a_release(), serving, an_environment(**changes))
    assert caught.value.remedy
