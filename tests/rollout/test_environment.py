from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modelctl.errors import InputError
from modelctl.rollout.environment import load_environment
from tests.support.rollouts import PROJECT, an_environment


def test_the_environments_of_this_repository_are_valid() -> None:
    names = [path.parent.name for path in (PROJECT / "gitops" / "environments").glob("*/environment.yaml")]
    assert sorted(names) == ["demo", "prod"]
    for name in names:
        assert load_environment(PROJECT, name).namespace == f"models-{name}"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"replcas": 3}, "did you mean 'replicas'"),
        ({"replicas": 0}, "greater than or equal to 1"),
        ({"namespace": "Models Prod"}, "namespace"),
        ({"engine__memory": "32Gigs"}, "engine.memory"),
        ({"engine__image": "vllm/vllm-openai:latest"}, "engine.image"),
        ({"puller__image": "modelctl:1"}, "puller.image"),
        ({"puller__command": ["aws", "s3", "cp", "{uri}", "{target}"]}, "must use {digest}"),
        ({"puller__command": ["pull", "{digest}", "{realease}"]}, "{realease}"),
        ({"router__kind": "gateway-api"}, "'gateway' belongs to kind 'gateway-api'"),
        ({"autoscaling": {"max_replicas": 9, "streams_per_replica": 1}}, "the least number, is 9"),
        ({"router__kind": "istio"}, "needs 'hostnames'"),
        ({"router__istio_gateways": ["mesh"]}, "'istio_gateways' belongs to kind 'istio'"),
        ({"router__tls_secret": "tls"}, "'tls_secret' belongs to kind 'nginx'"),
        ({"router__gateway": {"name": "a", "namespace": "b"}}, "'gateway' belongs to kind 'gateway-api'"),
        ({"canary__weights": [50, 10]}, "must rise"),
        ({"canary__weights": [10, 150]}, "less than or equal to 99"),
        ({"canary__pause_s": 600}, "a silent canary is only noticed after 840 s"),
        ({"prometheus": None}, "key 'prometheus' is missing"),
        ({"cluster": None}, "key 'cluster' is missing"),
    ],
)
def test_a_bad_value_is_named_with_what_is_wanted(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        an_environment(**changes)
    assert words in caught.value.message


def test_an_unknown_environment_names_the_ones_there_are(tmp_path: Path) -> None:
    folder = tmp_path / "gitops" / "environments" / "production"
    folder.mkdir(parents=True)
    (folder / "environment.yaml").write_text("", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_environment(tmp_path, "prodution")
    assert caught.value.remedy == "did you mean --env production?"
    with pytest.raises(InputError, match="no environment"):
        load_environment(tmp_path, "../environments/production")
