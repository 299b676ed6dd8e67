"""What the engines' pods may reach and who may reach them."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest

from modelctl.errors import InputError
from modelctl.rollout.network_policy import network_policy
from tests.support.rollouts import an_environment

NETWORK = {"clients": ["apps"], "monitoring": "monitoring"}
GATEWAY = {"kind": "gateway-api", "gateway": {"name": "public", "namespace": "gateways"}}


def policy(**changes: Any) -> dict[str, Any]:
    found = network_policy(an_environment(**{"network": NETWORK, **changes}), "tiny")
    assert found is not None
    kubernetes_validate.validate(found, "1.32", strict=True)
    return dict(found)


def peers(rules: list[dict[str, Any]], side: str) -> list[tuple[str, list[Any]]]:
    def place(peer: dict[str, Any]) -> str:
        if "ipBlock" in peer:
            return str(peer["ipBlock"]["cidr"])
        return str(peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"])

    return [(place(peer), [port["port"] for port in rule["ports"]]) for rule in rules for peer in rule[side]]


def test_only_who_asks_and_who_measures_comes_in() -> None:
    assert peers(policy()["spec"]["ingress"], "from") == [("apps", ["http"]), ("monitoring", ["http"])]
    assert [peer for peer, _ in peers(policy(router=GATEWAY)["spec"]["ingress"], "from")] == [
        "apps", "gateways", "monitoring",
    ]  # fmt: skip


def test_only_the_store_names_and_what_is_listed_are_reached() -> None:
    assert policy()["spec"]["policyTypes"] == ["Ingress", "Egress"]
    listed = [{"namespace": "redis", "port": 6379}]
    assert peers(policy(network={**NETWORK, "egress": listed})["spec"]["egress"], "to") == [
        ("kube-system", [53, 53]), ("minio", [9000]), ("redis", [6379]),
    ]  # fmt: skip


def test_a_store_outside_the_cluster_has_to_be_placed() -> None:
    outside = {"endpoint": "https://s3.example.com", "credentials_secret": "store"}
    with pytest.raises(InputError, match=r"s3\.example\.com is no Service of this cluster") as caught:
        policy(store=outside)
    assert "network.store" in (caught.value.remedy or "")
    placed = {**NETWORK, "store": {"cidr": "192.0.2.0/24", "port": 443}}
    assert ("192.0.2.0/24", [443]) in peers(policy(store=outside, network=placed)["spec"]["egress"], "to")


@pytest.mark.parametrize(
    "peer", [{"port": 1}, {"namespace": "a", "cidr": "10.0.0.0/8", "port": 1}, {"cidr": "10.0.0.1/8", "port": 1}]
)
def test_a_peer_is_a_namespace_or_addresses(peer: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        policy(network={**NETWORK, "egress": [peer]})


def test_nothing_is_written_for_an_environment_that_says_nothing() -> None:
    assert network_policy(an_environment(), "tiny") is None
