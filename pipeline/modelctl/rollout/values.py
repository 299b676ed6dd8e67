"""Values that environment files are made of, each checked when it is read."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, IPvAnyNetwork, StringConstraints, model_validator

from modelctl.documents import Document

DNS_LABEL = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
DnsLabel = Annotated[str, StringConstraints(pattern=DNS_LABEL)]
ImageByDigest = Annotated[str, StringConstraints(pattern=r"^\S+@sha256:[0-9a-f]{64}$")]
HttpUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^\s/]+(/\S*)?$")]
Quantity = Annotated[str, StringConstraints(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?$")]
"""A Kubernetes quantity; the API schemas accept any string, so `32Gigs` would only fail in the cluster."""


class Peer(Document):
    """Something that engines may reach over TCP: the pods of a namespace, or addresses."""

    namespace: DnsLabel | None = None
    cidr: IPvAnyNetwork | None = None
    port: Annotated[int, Field(ge=1, le=65535)]

    @model_validator(mode="after")
    def _one(self) -> Peer:
        if (self.namespace is None) == (self.cidr is None):
            raise ValueError("wants either 'namespace' or 'cidr'")
        return self
