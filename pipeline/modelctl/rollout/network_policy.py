"""The NetworkPolicy of the engines' pods: in, who asks and who measures; out, the store, names and what is listed.

An engine that was taken over has nowhere to carry prompts to. Namespaces are matched by the label that Kubernetes
itself gives them (`kubernetes.io/metadata.name`).
"""

from __future__ import annotations

from urllib.parse import urlsplit

from modelctl.errors import InputError
from modelctl.rollout.environment import Environment, Peer
from modelctl.rollout.labels import labels
from modelctl.rollout.manifest import NAME_LABEL, Json, Manifest

NAMESPACE_LABEL = "kubernetes.io/metadata.name"
OPEN_NOTE = (
    "environment.yaml has no 'network': no NetworkPolicy is written, so the engines' pods may reach everything and be "
    "reached by everything"
)


def network_policy(environment: Environment, name: str) -> Manifest | None:
    """The manifest; None when the environment says nothing of its network. Raises `InputError` for an unknown store."""
    network = environment.network
    if network is None:
        return None
    gateway = environment.router.gateway
    sources = dict.fromkeys((*network.clients, *([gateway.namespace] if gateway else []), network.monitoring))
    dns: Manifest = {
        "to": [_namespace(network.dns)],
        "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}],
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": environment.namespace, "labels": labels(name, environment)},
        "spec": {
            "podSelector": {"matchLabels": {NAME_LABEL: name}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {
                    "from": [_namespace(source) for source in sources],
                    "ports": [{"protocol": "TCP", "port": "http"}],
                }
            ],
            "egress": [dns, _way_to(_store(environment)), *map(_way_to, (*network.egress, *_traces(environment)))],
        },
    }


def _store(environment: Environment) -> Peer:
    """The store's place: as the environment says, else as its address does."""
    network = environment.network
    if network is not None and network.store is not None:
        return network.store
    return service_of(environment.store.endpoint, "store", "add network.store with a cidr and a port")


def _traces(environment: Environment) -> tuple[Peer, ...]:
    """The collector's place, unless `egress` has its port already."""
    tracing, network = environment.tracing, environment.network
    if tracing is None or network is None or urlsplit(tracing.endpoint).port in {peer.port for peer in network.egress}:
        return ()
    return (service_of(tracing.endpoint, "collector of traces", "add it to network.egress with its port"),)


def service_of(url: str, what: str, remedy: str) -> Peer:
    """The namespace and port in the address of a Service of the cluster (`http://minio.minio.svc:9000`).

    Raises `InputError` with `remedy` for any other address.
    """
    address = urlsplit(url)
    parts = (address.hostname or "").split(".")
    if len(parts) >= 3 and parts[2] == "svc":
        return Peer(namespace=parts[1], port=address.port or (443 if address.scheme == "https" else 80))
    raise InputError(
        f"environment.yaml: the {what} {url} is no Service of this cluster, so its place in a NetworkPolicy is not "
        "known",
        remedy=remedy,
    )


def _way_to(peer: Peer) -> Manifest:
    target: Manifest = {"ipBlock": {"cidr": str(peer.cidr)}} if peer.cidr else _namespace(peer.namespace or "")
    ports: list[Json] = [{"protocol": "TCP", "port": peer.port}]
    return {"to": [target], "ports": ports}


def _namespace(name: str) -> Manifest:
    return {"namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: name}}}
