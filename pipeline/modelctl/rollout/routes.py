"""The route whose weights Argo Rollouts moves, and how the Rollout names it: Gateway API, Istio or ingress-nginx.

Every router keeps the stable pods until the canary has ended, so that its weights are exact. Answers are streams of
minutes: no router may buffer them or end them early.
"""

from __future__ import annotations

from collections.abc import Mapping

from modelctl.rollout.environment import Environment
from modelctl.rollout.labels import BEFORE_PODS, labels
from modelctl.rollout.manifest import Json, Manifest

GATEWAY_PLUGIN = "argoproj-labs/gatewayAPI"
PATH = "/v1/"
ISTIO_ROUTE = "primary"
STREAM_LIMIT_S = 3600


def route(environment: Environment, name: str) -> Manifest | None:
    """The route's manifest; None for the `replicas` router."""
    match environment.router.kind:
        case "gateway-api":
            return _http_route(environment, name)
        case "istio":
            return _virtual_service(environment, name)
        case "nginx":
            return _ingress(environment, name)
        case "replicas":
            return None


def traffic_routing(environment: Environment, name: str) -> Manifest:
    """`trafficRouting` of the Rollout's canary strategy; empty for the `replicas` router."""
    routers: Mapping[str, Manifest] = {
        "gateway-api": {"plugins": {GATEWAY_PLUGIN: {"httpRoute": name, "namespace": environment.namespace}}},
        "istio": {"istio": {"virtualService": {"name": name, "routes": [ISTIO_ROUTE]}}},
        "nginx": {"nginx": {"stableIngress": name}},
    }
    chosen = routers.get(environment.router.kind)
    return {"trafficRouting": chosen} if chosen is not None else {}


def _http_route(environment: Environment, name: str) -> Manifest:
    gateway = environment.router.gateway
    if gateway is None:
        raise AssertionError("the environment file was checked")
    hostnames: Mapping[str, Json] = {"hostnames": environment.router.hostnames} if environment.router.hostnames else {}
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": _metadata(environment, name),
        "spec": {
            "parentRefs": [{"name": gateway.name, "namespace": gateway.namespace}],
            **hostnames,
            "rules": [
                {
                    "matches": [{"path": {"type": "PathPrefix", "value": PATH}}],
                    "backendRefs": [
                        {"name": f"{name}-stable", "port": 80, "weight": 100},
                        {"name": f"{name}-canary", "port": 80, "weight": 0},
                    ],
                }
            ],
        },
    }


def _virtual_service(environment: Environment, name: str) -> Manifest:
    gateways = environment.router.istio_gateways
    return {
        "apiVersion": "networking.istio.io/v1",
        "kind": "VirtualService",
        "metadata": {**_metadata(environment, name), "annotations": BEFORE_PODS},
        "spec": {
            "hosts": environment.router.hostnames,
            **({"gateways": gateways} if gateways else {}),
            "http": [
                {
                    "name": ISTIO_ROUTE,
                    "match": [{"uri": {"prefix": PATH}}],
                    "timeout": f"{STREAM_LIMIT_S}s",
                    "route": [
                        {"destination": {"host": f"{name}-stable", "port": {"number": 80}}, "weight": 100},
                        {"destination": {"host": f"{name}-canary", "port": {"number": 80}}, "weight": 0},
                    ],
                }
            ],
        },
    }


def _ingress(environment: Environment, name: str) -> Manifest:
    router = environment.router
    backend: Manifest = {"service": {"name": f"{name}-stable", "port": {"number": 80}}}
    paths: Manifest = {"paths": [{"path": PATH, "pathType": "Prefix", "backend": backend}]}
    tls: Mapping[str, Json] = (
        {"tls": [{"hosts": router.hostnames, "secretName": router.tls_secret}]} if router.tls_secret else {}
    )
    annotations = {
        "nginx.ingress.kubernetes.io/proxy-buffering": "off",
        "nginx.ingress.kubernetes.io/proxy-read-timeout": str(STREAM_LIMIT_S),
        "nginx.ingress.kubernetes.io/proxy-send-timeout": str(STREAM_LIMIT_S),
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {**_metadata(environment, name), "annotations": annotations},
        "spec": {
            "ingressClassName": router.ingress_class,
            **tls,
            "rules": [{"host": host, "http": paths} for host in router.hostnames],
        },
    }


def _metadata(environment: Environment, name: str) -> Manifest:
    return {"name": name, "namespace": environment.namespace, "labels": labels(name, environment)}
