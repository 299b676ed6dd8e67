"""Picks one of the models that an engine serves: the base, or an adapter by its name."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from modelctl.errors import CannotDecideError, InputError
from modelctl.serving.client import EngineClient
from modelctl.serving.endpoint import Endpoint

_ANSWER_TIMEOUT_S = 30.0


def choose_model(endpoint: Endpoint, name: str) -> Endpoint:
    """The endpoint with another of its models. Raises `InputError` when it serves none of that name."""
    return asyncio.run(_choose(endpoint, name))


async def _choose(endpoint: Endpoint, name: str) -> Endpoint:
    async with EngineClient(endpoint, silence_limit_s=_ANSWER_TIMEOUT_S, time_limit_s=_ANSWER_TIMEOUT_S) as client:
        answer = await client.get_json("/v1/models")
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list):
        raise CannotDecideError(
            f"{endpoint.base_url}/v1/models lists no model", remedy="is this an OpenAI-compatible server?"
        )
    models = {entry["id"]: entry for entry in data if isinstance(entry, dict) and isinstance(entry.get("id"), str)}
    if name not in models:
        raise InputError(f"{endpoint.base_url} serves no model '{name}'", remedy=f"it serves {', '.join(models)}")
    length = models[name].get("max_model_len")
    # An adapter's own entry has no length: it is its base's.
    return replace(endpoint, model=name, max_model_len=length if isinstance(length, int) else endpoint.max_model_len)
