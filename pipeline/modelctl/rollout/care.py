"""How careful an environment is with a release: the canary's steps and limits, alerts, replicas by load, network."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from modelctl.documents import Document
from modelctl.rollout.values import DnsLabel, HttpUrl, Peer


class CanaryLimits(Document):
    """What the canary may not exceed."""

    error_share: Annotated[float, Field(gt=0, lt=1)] = 0.01
    """Share of HTTP 5xx among requests, and of streams that ended in an error."""
    ttft_ratio: Annotated[float, Field(gt=1)] = 1.2
    """Time to first token, canary over stable: 95th percentile and mean must both exceed it to fail."""
    inter_token_ratio: Annotated[float, Field(gt=1)] = 1.2
    """Time from token to token, judged in the same way."""
    length_share_rise: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """How much larger than the stable release's share of answers that ended at the length limit its own may be."""
    preemptions: Annotated[int, Field(ge=0)] = 5
    """Requests thrown out of the KV cache in the window."""
    waiting: Annotated[int, Field(ge=1)] = 5
    """Requests waiting in one engine must stay under this."""
    min_requests: Annotated[int, Field(ge=1)] = 200
    """Fewer finished requests than this in the window decide nothing."""


class Canary(Document):
    """Steps and patience."""

    weights: Annotated[tuple[Annotated[int, Field(ge=1, le=99)], ...], Field(min_length=1)] = (10, 25, 50)
    pause_s: Annotated[int, Field(ge=60)] = 1200
    window_s: Annotated[int, Field(ge=60)] = 600
    """Length of the measurement window, and the delay before the first one (a canary starts with cold caches)."""
    interval_s: Annotated[int, Field(ge=15)] = 60
    inconclusive_limit: Annotated[int, Field(ge=0)] = 2
    """Undecided measurements that are borne before the rollout pauses for a person."""
    limits: CanaryLimits = CanaryLimits()

    @model_validator(mode="after")
    def _patience(self) -> Canary:
        if list(self.weights) != sorted(set(self.weights)):
            raise ValueError("'weights' must rise from step to step")
        needed = self.window_s + (self.inconclusive_limit + 2) * self.interval_s
        if self.pause_s < needed:
            raise ValueError(
                f"'pause_s' is {self.pause_s}, but a silent canary is only noticed after {needed} s "
                "(window_s + (inconclusive_limit + 2) * interval_s): it would be promoted unmeasured"
            )
        return self


class Alerts(Document):
    """When a person is told, beside the canary's own limits."""

    error_share: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """Share of HTTP 5xx that pages."""
    ttft_p95_s: Annotated[float, Field(gt=0)] = 5.0
    """Time to first token, 95th percentile, in seconds."""
    kv_cache_share: Annotated[float, Field(gt=0, lt=1)] = 0.95
    gpu_memory_share: Annotated[float, Field(gt=0, lt=1)] = 0.98
    runbook_url: HttpUrl | None = None
    """Each alert links to the section of its name there."""


class Autoscaling(Document):
    """Replicas by load, through KEDA; `replicas` is the least number then, and the number itself is not in git."""

    max_replicas: Annotated[int, Field(ge=2)]
    streams_per_replica: Annotated[int, Field(ge=1)]
    """Requests in flight that a replica holds well: the knee that the concurrency check measured."""


class Network(Document):
    """Who may reach the engines and what they may reach; without it no NetworkPolicy is written."""

    clients: Annotated[tuple[DnsLabel, ...], Field(min_length=1)]
    """Namespaces whose pods may ask; a Gateway's own comes by itself."""
    monitoring: DnsLabel
    """Prometheus' namespace."""
    dns: DnsLabel = "kube-system"
    store: Peer | None = None
    """Where the store is, when its endpoint is no Service of the cluster."""
    egress: tuple[Peer, ...] = ()
    """What else the pods may reach: a Redis, a collector of traces."""
