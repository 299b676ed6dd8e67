"""What an environment may have beside the engines: a gateway in front, dashboards, logs, traces, signatures."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from modelctl.documents import Document
from modelctl.rollout.values import DnsLabel, HttpUrl, ImageByDigest, Peer, Quantity


class Front(Document):
    """A gateway in front of the model: LiteLLM's proxy, with a strict request schema, cleaned texts, limits for each
    client and a line of audit for each request. Clients ask `<name>-front.<namespace>.svc`.
    """

    image: ImageByDigest
    """LiteLLM's proxy."""
    command: Annotated[tuple[str, ...], Field(min_length=1)] = ("litellm",)
    namespace: DnsLabel | None = None
    """Where its pods run; by default `<namespace>-front`. Not where models are served: the admission policy would
    refuse pods that serve none."""
    upstream: HttpUrl | None = None
    """The router's own address. Only the router `replicas` does without: there it is the model's Service."""
    egress: tuple[Peer, ...] = ()
    """What its pods may reach, where `upstream` is set and there is a `network`."""
    keys_secret: DnsLabel
    """A secret in its namespace: a key for each client, under the client's name."""
    replicas: Annotated[int, Field(ge=1)] = 2
    cpu: Quantity = "1"
    memory: Quantity = "2Gi"
    prompt_chars: Annotated[int, Field(ge=1)] = 200_000
    """Characters of all of a request's texts together."""
    answer_tokens: Annotated[int, Field(ge=1)] = 8192
    """The most that `max_tokens` may ask for, and what it is where the client does not say."""
    requests_per_minute: Annotated[int, Field(ge=1)] = 600
    """Of one client, in each of the gateway's pods."""
    parallel_requests: Annotated[int, Field(ge=1)] = 32
    """The same for requests at one time."""
    timeout_s: Annotated[int, Field(ge=1)] = 600
    """The longest that an answer may take."""
    silence_s: Annotated[int, Field(ge=1)] = 120
    """The longest that a stream may say nothing."""
    retries: Annotated[int, Field(ge=0, le=5)] = 1
    fallback_answer: Annotated[str, StringConstraints(min_length=1, max_length=1000)] | None = None
    """What a client is told when the model does not answer, instead of an error; with the model's name `fallback`."""


class Dashboards(Document):
    """Grafana dashboards as ConfigMaps with the label `grafana_dashboard: "1"`, which Grafana's sidecar looks for."""

    folder: Annotated[str, StringConstraints(min_length=1, max_length=63)] = "Models"
    """Grafana's folder for them, as the annotation `grafana_folder`."""


class Logs(Document):
    """What the engines write about requests. Prompts and answers are never written."""

    access: bool = True
    """A line for each request: address, path, status. None for `/health` and `/metrics`."""
    requests: bool = False
    """Also its id and sampling parameters."""


class Tracing(Document):
    """Where the engines send OpenTelemetry traces: times and token counts of each request, no text."""

    endpoint: HttpUrl
    """A collector of OTLP; `network` lets the engines reach it, when it is a Service of the cluster."""
    protocol: Literal["grpc", "http/protobuf"] = "grpc"


class Identity(Document):
    """Whose certificate Sigstore has to have signed with."""

    subject: str
    """As the certificate has it, for example `signer@example.com` or a workflow's URL."""
    issuer: HttpUrl
    """The OpenID Connect issuer that vouched for it."""


class ModelValidation(Document):
    """Sigstore's model-validation-operator, where the cluster has it: one more check of the weights, by signature.

    It is injected behind the init container that verifies the digest. The signature is the record's own `model.sig`.
    """

    public_key: DnsLabel | None = None
    """A ConfigMap with the key `public.pem`."""
    identity: Identity | None = None

    @model_validator(mode="after")
    def _one(self) -> ModelValidation:
        if (self.public_key is None) == (self.identity is None):
            raise ValueError("wants either 'public_key' or 'identity'")
        return self
