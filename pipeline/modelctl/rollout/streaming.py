"""Weights that the engine reads from the store itself: vLLM's `runai_streamer`, which reads safetensors of a prefix.

The variables are those of the AWS clients inside it and of the streamer (vLLM's docs/models/extensions/
runai_model_streamer.md): a store that is not AWS is addressed by path, and has no metadata service to ask for keys.
"""

from __future__ import annotations

from modelctl.rollout.environment import Environment
from modelctl.rollout.manifest import Json

NOTE = (
    "weights are streamed: an init container reads the bucket and compares every byte with the record, then the engine "
    "reads it again; nothing verifies that second read, so nobody but the publication may write to the bucket"
)
_KEYS = {"AWS_ACCESS_KEY_ID": "access_key", "AWS_SECRET_ACCESS_KEY": "secret_key"}


def variables(environment: Environment) -> list[Json]:
    """What the engine needs to reach the store; nothing where weights are pulled."""
    if environment.weights != "stream":
        return []
    plain = {
        "AWS_ENDPOINT_URL": environment.store.endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING": "0",
    }
    secret = environment.store.credentials_secret
    keys: list[Json] = [
        {"name": key, "valueFrom": {"secretKeyRef": {"name": secret, "key": kept}}} for key, kept in _KEYS.items()
    ]
    given: list[Json] = [{"name": key, "value": value} for key, value in plain.items()]
    return [*given, *keys]
