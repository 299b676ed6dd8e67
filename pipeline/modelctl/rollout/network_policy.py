"""The NetworkPolicy of the engines' pods: in, who asks and who measures; out, the store, names and what is listed.

An engine that was taken over has nowhere to carry prompts to. Namespaces are matched by the label that Kubernetes
itself gives them (`kubernetes.io/metadata.name`).
"""

from __future__ import annotations

from urllib.parse import urlsplit

from modelctl.errors import InputError
from modelctl.rollout.environment import Environment
from modelctl.rollout.labels import labels
from modelctl.rollout.manifest import NAME_LABEL, Json, Manifest
from modelctl.rollout.values import Peer

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
    clients = network.clients
    if environment.front is not None and environment.front.upstream is None:
        clients = (front_namespace(environment),)
    sources = dict.fromkeys((*clients, *([gateway.namespace] if gateway else []), network.monitoring))
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
            "egress": [
                _names(network.dns),
                _way_to(_store(environment)),
                *map(_way_to, (*network.egress, *_traces(environment))),
            ],
        },
    }


def front_policy(environment: Environment, name: str, own: str, metadata: Manifest) -> Manifest:
    """The same for the gateway's pods: in, the clients; out, names and what it asks."""
    network, wanted = environment.network, environment.front
    if network is None or wanted is None:
        raise AssertionError("asked only where there are both")
    engines: Manifest = {
        "to": [{**_namespace(environment.namespace), "podSelector": {"matchLabels": {NAME_LABEL: name}}}],
        "ports": [{"protocol": "TCP", "port": "http"}],
    }
    if wanted.upstream is not None and not wanted.egress:
        raise InputError(
            "environment.yaml: front.upstream is set, so its place in the gateway's NetworkPolicy is not known",
            remedy="add front.egress with the router's namespace or cidr, and its port",
        )
    ways = [engines] if wanted.upstream is None else [_way_to(peer) for peer in wanted.egress]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata,
        "spec": {
            "podSelector": {"matchLabels": {NAME_LABEL: own}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {
                    "from": [_namespace(client) for client in network.clients],
                    "ports": [{"protocol": "TCP", "port": "http"}],
                }
            ],
            "egress": [_names(network.dns), *ways],
        },
    }


def front_namespace(environment: Environment) -> str:
    """Where the gateway's pods run."""
    wanted = environment.front
    return (wanted.namespace if wanted else None) or f"{environment.namespace}-front"


def _names(namespace: str) -> Manifest:
    """The way to the cluster's DNS."""
    ports: list[Json] = [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]
    return {"to": [_namespace(namespace)], "ports": ports}


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
