"""`gitops/environments/<env>/environment.yaml`: what one environment offers to every release that is rolled out there.

What a release needs stands in its own file; what the cluster has stands here: replicas, spare GPUs, router, store,
Prometheus; how careful it is with a release is in `care`, what stands beside the engines in `beside`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from modelctl.documents import Document, load_document, nearest
from modelctl.errors import InputError
from modelctl.model.release import BlockSize
from modelctl.rollout.beside import Dashboards, Front, Logs, ModelValidation, Tracing
from modelctl.rollout.care import Alerts, Autoscaling, Canary, Network
from modelctl.rollout.values import DNS_LABEL, DnsLabel, HttpUrl, ImageByDigest, Quantity


class Cluster(Document):
    """Which cluster Argo CD deploys to."""

    server: HttpUrl
    """Read by the ApplicationSet too, which knows no defaults; the cluster Argo CD runs in is
    `https://kubernetes.default.svc`."""


class EnvironmentGpu(Document):
    """The environment's accelerators; what is not given here is taken from the release."""

    resource: str | None = None
    count: Annotated[int, Field(ge=0, le=64)] | None = None
    """GPUs for one replica; 0 serves on the CPU."""
    product: str | None = None
    spare: Annotated[int, Field(ge=0)] = 0
    """GPUs that are free for a canary beside the running replicas (replicas, when a replica has no GPU)."""


class Gateway(Document):
    """The Gateway that the route is attached to."""

    name: DnsLabel
    namespace: DnsLabel


class Router(Document):
    """How traffic is shared between stable and canary."""

    kind: Literal["replicas", "gateway-api", "istio", "nginx"] = "replicas"
    """`replicas`: by the number of pods; `gateway-api`: by an HTTPRoute's weights (needs Argo Rollouts' plugin);
    `istio`: by a VirtualService's; `nginx`: by a second Ingress that Argo Rollouts makes of the first."""
    gateway: Gateway | None = None
    """Of `gateway-api`."""
    istio_gateways: tuple[str, ...] = ()
    """Of `istio`: `name` or `namespace/name`; none serves inside the mesh alone."""
    ingress_class: DnsLabel = "nginx"
    tls_secret: DnsLabel | None = None
    """Of `nginx`: the certificate for the host names."""
    hostnames: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _gateway(self) -> Router:
        if (self.kind == "gateway-api") != (self.gateway is not None):
            raise ValueError("'gateway' belongs to kind 'gateway-api' and to no other")
        if self.istio_gateways and self.kind != "istio":
            raise ValueError("'istio_gateways' belongs to kind 'istio' and to no other")
        if self.tls_secret and self.kind != "nginx":
            raise ValueError("'tls_secret' belongs to kind 'nginx' and to no other")
        if self.kind in ("istio", "nginx") and not self.hostnames:
            raise ValueError(f"kind '{self.kind}' needs 'hostnames'")
        return self


class EnvironmentStore(Document):
    """The object store as the cluster reaches it. The secret's keys are `access_key` and `secret_key`."""

    endpoint: HttpUrl
    bucket: str = "models"
    credentials_secret: DnsLabel


class Prometheus(Document):
    """Where the canary's measurements are read."""

    address: HttpUrl
    scrape_interval_s: Annotated[int, Field(ge=5, le=60)] = 15


class EnvironmentEngine(Document):
    """How the engine's container runs here."""

    image: ImageByDigest | None = None
    """Replaces the image that the release names."""
    command: tuple[str, ...] = ("vllm", "serve")
    block_size: BlockSize = 16
    """Tokens in one block of the KV cache."""
    cpu: Quantity = "8"
    memory: Quantity = "64Gi"
    cpu_kv_cache_gib: Annotated[int, Field(ge=1)] = 4
    """KV cache of an engine without a GPU, where `gpu_memory_utilization` says nothing."""
    load_timeout_s: Annotated[int, Field(ge=30)] = 1200
    """Longest time from the container's start to a healthy engine."""
    shutdown_timeout_s: Annotated[int, Field(ge=0)] = 300
    """How long running streams may go on after a pod was told to end."""
    scratch: Quantity = "20Gi"
    """Writable space for the engine's compile caches; the rest of its file system is read-only."""


class Puller(Document):
    """The init container that brings the weights and verifies them before anything is served."""

    image: ImageByDigest
    command: Annotated[tuple[str, ...], Field(min_length=1)] = (
        "modelctl",
        "pull",
        "{release}",
        "{target}",
        "--digest",
        "{digest}",
    )
    """`{release}`, `{target}`, `{digest}`, `{uri}`, `{bucket}` are filled in; it must fail for other bytes."""

    check_command: Annotated[tuple[str, ...], Field(min_length=1)] = (
        "modelctl",
        "verify",
        "{release}",
        "--full",
        "--from",
        "{bucket}",
        "--digest",
        "{digest}",
    )
    """Instead of `command` where weights are streamed; it reads the bucket and must fail for other bytes."""

    @model_validator(mode="after")
    def _verifies(self) -> Puller:
        known = {"release", "target", "digest", "uri", "bucket"}
        for key, command in (("command", self.command), ("check_command", self.check_command)):
            if not any("{digest}" in word for word in command):
                raise ValueError(f"'{key}' must use {{digest}}: weights that nobody verifies are not served")
            for word in command:
                for name in re.findall(r"\{(\w*)\}", word):
                    if name not in known:
                        raise ValueError(f"'{key}' uses {{{name}}}; known are {', '.join(sorted(known))}")
        return self


class Environment(Document):
    """One environment."""

    api_version: Annotated[Literal["modelctl.dev/v1"], Field(alias="apiVersion")]
    kind: Literal["Environment"]
    team: DnsLabel
    owner: str | None = None
    cluster: Cluster
    namespace: DnsLabel
    replicas: Annotated[int, Field(ge=1)]
    gpu: EnvironmentGpu = EnvironmentGpu()
    router: Router = Router()
    store: EnvironmentStore
    prometheus: Prometheus
    engine: EnvironmentEngine = EnvironmentEngine()
    weights: Literal["pull", "stream"] = "pull"
    """`pull`: copied to the node, verified there, then served; `stream`: read from the store by the engine itself
    (vLLM's `runai_streamer`), after an init container has read and verified the bucket's objects. What was verified is
    then not the very read that is served: whoever may write to the bucket could change it in between."""
    puller: Puller
    model_validation: ModelValidation | None = None
    canary: Canary = Canary()
    alerts: Alerts = Alerts()
    autoscaling: Autoscaling | None = None
    network: Network | None = None
    front: Front | None = None
    dashboards: Dashboards | None = None
    logs: Logs = Logs()
    tracing: Tracing | None = None

    @model_validator(mode="after")
    def _streamed(self) -> Environment:
        if self.weights == "stream" and self.model_validation is not None:
            raise ValueError("'model_validation' verifies files in the pod, and with weights 'stream' there are none")
        return self

    @model_validator(mode="after")
    def _replicas(self) -> Environment:
        if self.autoscaling is not None and self.autoscaling.max_replicas <= self.replicas:
            raise ValueError(
                f"autoscaling.max_replicas is {self.autoscaling.max_replicas}, and replicas, the least number, "
                f"is {self.replicas}"
            )
        return self


def environments_folder(root: Path) -> Path:
    """The folder that holds one folder for each environment."""
    return root / "gitops" / "environments"


def load_environment(root: Path, name: str) -> Environment:
    """Read an environment of a registry repository. Raises `InputError` that names the ones there are."""
    folder = environments_folder(root)
    known = sorted(path.parent.name for path in folder.glob("*/environment.yaml"))
    if not re.match(DNS_LABEL, name) or name not in known:
        close = nearest(name, known)
        raise InputError(
            f"no environment '{name}' in {folder}",
            remedy=f"did you mean --env {close}?"
            if close
            else f"known environments: {', '.join(known)}"
            if known
            else f"write {folder / name / 'environment.yaml'}",
        )
    return load_document(folder / name / "environment.yaml", Environment)
