"""The gateway's manifests: LiteLLM's proxy behind a Service, its configuration and our rules in a ConfigMap.

Clients ask the gateway, the gateway asks the model's Service or route, so the canary's shares hold behind it. The rules
are the very files of this package. The name of the ConfigMap ends in the hash of what it holds: changed rules start new
pods, and a rollback brings the old ones back.
"""

from __future__ import annotations

import hashlib
import json
from importlib import resources
from typing import Any

from modelctl.errors import InputError
from modelctl.model.release import Serving
from modelctl.rollout.beside import Front
from modelctl.rollout.environment import Environment
from modelctl.rollout.labels import labels
from modelctl.rollout.manifest import NAME_LABEL, Json, Manifest, ServedRelease
from modelctl.rollout.network_policy import front_namespace, front_policy
from modelctl.rollout.privileges import container_security, pod_security
from modelctl.rollout.signatures import KEPT

PORT = 4000
CONFIG, KEYS, SCRATCH = "/etc/gateway", "/etc/gateway-keys", "/tmp"  # noqa: S108 - of the pod
FALLBACK = "fallback"
RULES = ("gateway_hooks.py", "request_rules.py")
NOTE = (
    "the gateway counts a client's requests in each of its pods by itself: all of them together let through as many "
    "times more"
)


def front(release: ServedRelease, serving: Serving, environment: Environment, name: str) -> tuple[Manifest, ...]:
    """The manifests; none where the environment asks for no gateway."""
    wanted = environment.front
    if wanted is None:
        return ()
    own = front_name(name)
    data = {
        "config.yaml": json.dumps(proxy_config(release, environment, name), indent=2),
        "gateway.json": json.dumps(rules_settings(release, serving, wanted), indent=2),
        **{file: rule_source(file) for file in RULES},
    }
    config_map = f"{own}-{hashlib.sha256(json.dumps(data).encode()).hexdigest()[:8]}"
    return (
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {**_metadata(environment, name, config_map), "annotations": KEPT},
            "data": data,
        },
        _deployment(wanted, environment, name, config_map),
        _service(environment, name),
        _budget(environment, name),
        *(
            ()
            if environment.network is None
            else (front_policy(environment, name, own, _metadata(environment, name, own)),)
        ),
    )


def front_name(name: str) -> str:
    """The gateway's objects, and its label: never that of the engines."""
    return f"{name}-front"


def upstream(environment: Environment, name: str) -> str:
    """Where the gateway asks. Raises `InputError` where only a person can know it."""
    wanted = environment.front
    if wanted is not None and wanted.upstream is not None:
        return str(wanted.upstream).rstrip("/")
    if environment.router.kind == "replicas":
        return f"http://{name}.{environment.namespace}.svc"
    raise InputError(
        f"environment.yaml: front.upstream is missing: with router {environment.router.kind} the weights hold only for "
        "what comes through the router",
        remedy="set front.upstream to the router's own address, for example https://llm.example.com",
    )


def proxy_config(release: ServedRelease, environment: Environment, name: str) -> dict[str, Any]:
    """LiteLLM's own configuration."""
    wanted = environment.front
    if wanted is None:
        raise AssertionError("asked only where there is a gateway")
    model = {
        "model_name": release.name,
        "litellm_params": {
            "model": f"hosted_vllm/{release.name}",
            "api_base": f"{upstream(environment, name)}/v1",
            "api_key": "none",
            "timeout": wanted.timeout_s,
            "stream_timeout": wanted.silence_s,
        },
    }
    answer = {
        "model_name": FALLBACK,
        "litellm_params": {"model": f"openai/{FALLBACK}", "api_key": "none", "mock_response": wanted.fallback_answer},
    }
    with_answer = wanted.fallback_answer is not None
    return {
        "model_list": [model, answer] if with_answer else [model],
        "litellm_settings": {
            "callbacks": ["gateway_hooks.rules"],
            "turn_off_message_logging": True,
            "json_logs": True,
            "telemetry": False,
            "request_timeout": wanted.timeout_s,
        },
        "router_settings": {
            "num_retries": wanted.retries,
            # One upstream: left out for a while after an error, nobody would be asked.
            "disable_cooldowns": True,
            **({"fallbacks": [{release.name: [FALLBACK]}]} if with_answer else {}),
        },
        "general_settings": {"custom_auth": "gateway_hooks.authenticate"},
    }


def rules_settings(release: ServedRelease, serving: Serving, wanted: Front) -> dict[str, Any]:
    """What our rules read."""
    tokens = wanted.answer_tokens
    if serving.max_model_len is not None:
        tokens = min(tokens, serving.max_model_len)
    return {
        "model": release.name,
        "fallback": FALLBACK,
        "limits": {"prompt_chars": wanted.prompt_chars, "answer_tokens": tokens},
        "requests_per_minute": wanted.requests_per_minute,
        "parallel_requests": wanted.parallel_requests,
        "keys": KEYS,
    }


def rule_source(file: str) -> str:
    """The text of one of the files that run in the gateway."""
    return resources.files(__package__).joinpath(file).read_text(encoding="utf-8")


def _deployment(wanted: Front, environment: Environment, name: str, config_map: str) -> Manifest:
    own = front_name(name)
    match: Manifest = {NAME_LABEL: own}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(environment, name, own),
        "spec": {
            "replicas": wanted.replicas,
            "revisionHistoryLimit": 5,
            "selector": {"matchLabels": match},
            "strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "template": {
                "metadata": {"labels": _labels(environment, name)},
                "spec": {
                    "automountServiceAccountToken": False,
                    "enableServiceLinks": False,
                    "securityContext": pod_security(),
                    "terminationGracePeriodSeconds": wanted.timeout_s + 30,
                    "topologySpreadConstraints": [
                        {
                            "maxSkew": 1,
                            "topologyKey": "kubernetes.io/hostname",
                            "whenUnsatisfiable": "ScheduleAnyway",
                            "labelSelector": {"matchLabels": match},
                        }
                    ],
                    "containers": [_container(wanted)],
                    "volumes": [
                        {"name": "config", "configMap": {"name": config_map}},
                        {"name": "keys", "secret": {"secretName": wanted.keys_secret}},
                        {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}},
                    ],
                },
            },
        },
    }


def _container(wanted: Front) -> Manifest:
    variables = {
        "HOME": SCRATCH,
        # The hooks import the rules, which lie beside them.
        "PYTHONPATH": CONFIG,
        "PYTHONDONTWRITEBYTECODE": "1",
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "NO_DOCS": "True",
        "NO_REDOC": "True",
        "DISABLE_ADMIN_UI": "True",
    }
    amounts: Manifest = {"cpu": wanted.cpu, "memory": wanted.memory}
    given: list[Json] = [{"name": key, "value": value} for key, value in variables.items()]
    return {
        "name": "gateway",
        "image": wanted.image,
        "command": wanted.command,
        "args": [f"--config={CONFIG}/config.yaml", "--host=0.0.0.0", f"--port={PORT}", "--telemetry=False"],
        "env": given,
        "ports": [{"name": "http", "containerPort": PORT}],
        "resources": {"requests": amounts, "limits": amounts},
        "startupProbe": _probe(30),
        "readinessProbe": _probe(2),
        "livenessProbe": _probe(6),
        "lifecycle": {"preStop": {"sleep": {"seconds": 15}}},
        "securityContext": container_security(),
        "volumeMounts": [
            {"name": "config", "mountPath": CONFIG, "readOnly": True},
            {"name": "keys", "mountPath": KEYS, "readOnly": True},
            {"name": "scratch", "mountPath": SCRATCH},
        ],
    }


def _probe(failures: int) -> Manifest:
    return {
        "httpGet": {"path": "/health/liveliness", "port": "http"},
        "periodSeconds": 10,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _service(environment: Environment, name: str) -> Manifest:
    own = front_name(name)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(environment, name, own),
        "spec": {
            "type": "ClusterIP",
            "selector": {NAME_LABEL: own},
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        },
    }


def _budget(environment: Environment, name: str) -> Manifest:
    own = front_name(name)
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _metadata(environment, name, own),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {NAME_LABEL: own}}},
    }


def _labels(environment: Environment, name: str) -> dict[str, str]:
    return {**labels(name, environment), NAME_LABEL: front_name(name)}


def _metadata(environment: Environment, name: str, own: str) -> Manifest:
    return {"name": own, "namespace": front_namespace(environment), "labels": _labels(environment, name)}
