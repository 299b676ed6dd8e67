"""The gateway's manifests: our rules are mounted, clients are bounded, and nobody goes round it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modelctl.errors import InputError
from modelctl.rollout.front.resources import rule_source
from modelctl.rollout.render import render
from tests.support.rollouts import a_release, a_serving, an_environment, documents

FRONT: dict[str, Any] = {
    "image": "ghcr.io/berriai/litellm@sha256:" + "c3" * 32,
    "keys_secret": "gateway-keys",
    "fallback_answer": "Please ask again in a minute.",
}
NETWORK = {"clients": ["apps"], "monitoring": "monitoring"}
NGINX = {"kind": "nginx", "hostnames": ["llm.example.com"]}


def rendered(**changes: Any) -> dict[str, dict[str, Any]]:
    """The gateway's objects and the engines' NetworkPolicy, by kind."""
    files = render(a_release(), a_serving(), an_environment(**{"front": FRONT, "network": NETWORK, **changes})).files
    objects = {document["kind"]: document for document in documents(files["front.yaml"])}
    (engines,) = documents(files["network-policy.yaml"])
    return {**objects, "engines": engines}


def test_it_asks_the_service_over_both_releases_and_falls_back() -> None:
    config = json.loads(rendered()["ConfigMap"]["data"]["config.yaml"])
    model, answer = config["model_list"]
    assert model["model_name"] == "tiny"
    assert model["litellm_params"]["api_base"] == "http://tiny.models-prod.svc/v1"
    assert answer["litellm_params"]["mock_response"] == "Please ask again in a minute."
    assert config["router_settings"]["fallbacks"] == [{"tiny": ["fallback"]}]
    assert config["litellm_settings"]["turn_off_message_logging"] is True
    silent = {key: value for key, value in FRONT.items() if key != "fallback_answer"}
    config = json.loads(rendered(front=silent)["ConfigMap"]["data"]["config.yaml"])
    assert len(config["model_list"]) == 1
    assert "fallbacks" not in config["router_settings"]


def test_our_rules_are_mounted_where_it_looks_for_them() -> None:
    objects = rendered()
    data = objects["ConfigMap"]["data"]
    assert data["request_rules.py"] == rule_source("request_rules.py")
    settings = json.loads(data["gateway.json"])
    assert settings["limits"] == {"prompt_chars": 200_000, "answer_tokens": 8192}
    pod = objects["Deployment"]["spec"]["template"]["spec"]
    (volume,) = [item for item in pod["volumes"] if item["name"] == "config"]
    assert volume["configMap"]["name"] == objects["ConfigMap"]["metadata"]["name"]
    (container,) = pod["containers"]
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert {item["name"]: item["value"] for item in container["env"]}["PYTHONPATH"] == mounted["config"]
    assert mounted["keys"] == settings["keys"]
    assert f"--config={mounted['config']}/config.yaml" in container["args"]
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_an_answer_is_no_longer_than_the_model_can() -> None:
    serving = a_serving(max_model_len=2048)
    files = render(a_release(), serving, an_environment(front=FRONT)).files
    config_map = next(documents(files["front.yaml"]))
    assert json.loads(config_map["data"]["gateway.json"])["limits"]["answer_tokens"] == 2048


def test_changed_rules_start_new_pods() -> None:
    one, two = rendered(), rendered(front={**FRONT, "prompt_chars": 100})
    names = [item["ConfigMap"]["metadata"]["name"] for item in (one, two)]
    assert names[0] != names[1]
    assert all(name.startswith("tiny-front-") for name in names)


def test_nobody_goes_round_it() -> None:
    objects = rendered()
    assert objects["Deployment"]["metadata"]["namespace"] == "models-prod-front"
    sources = [
        peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
        for peer in objects["engines"]["spec"]["ingress"][0]["from"]
    ]
    assert sources == ["models-prod-front", "monitoring"]
    policy = objects["NetworkPolicy"]["spec"]
    assert policy["podSelector"]["matchLabels"] == objects["Service"]["spec"]["selector"]
    assert "apps" in str(policy["ingress"])
    (engines,) = [way for way in policy["egress"] if "podSelector" in way["to"][0]]
    assert engines["to"][0]["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "tiny"}


def test_behind_a_router_its_address_is_asked_for() -> None:
    with pytest.raises(InputError, match=r"front\.upstream is missing") as caught:
        rendered(router=NGINX, gpu={"spare": 9})
    assert "https://llm.example.com" in (caught.value.remedy or "")
    addressed = {**FRONT, "upstream": "https://llm.example.com/"}
    with pytest.raises(InputError, match=r"front\.upstream is set") as caught:
        rendered(router=NGINX, gpu={"spare": 9}, front=addressed)
    assert "front.egress" in (caught.value.remedy or "")
    whole = {**addressed, "egress": [{"namespace": "ingress-nginx", "port": 443}]}
    objects = rendered(router=NGINX, gpu={"spare": 9}, front=whole)
    config = json.loads(objects["ConfigMap"]["data"]["config.yaml"])
    assert config["model_list"][0]["litellm_params"]["api_base"] == "https://llm.example.com/v1"
    assert "ingress-nginx" in str(objects["NetworkPolicy"]["spec"]["egress"])
    assert "apps" in str(objects["engines"]["spec"]["ingress"])
