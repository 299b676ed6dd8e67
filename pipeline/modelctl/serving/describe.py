"""Asks a running engine who it is: the model's name, its longest context and the engine's version."""

from __future__ import annotations

from dataclasses import replace

from modelctl.errors import CannotDecideError
from modelctl.serving.client import EngineClient
from modelctl.serving.endpoint import Endpoint
from modelctl.serving.models import listed_models

_ANSWER_TIMEOUT_S = 30.0


class NoSuchModelError(CannotDecideError):
    """The engine answers and does not serve the model that was wanted."""


async def describe(endpoint: Endpoint) -> Endpoint:
    """The endpoint with what the engine says of itself filled in; a model that it names already must be there, else
    the first is taken. Raises `CannotDecideError`."""
    async with EngineClient(endpoint, silence_limit_s=_ANSWER_TIMEOUT_S, time_limit_s=_ANSWER_TIMEOUT_S) as client:
        models = await listed_models(client)
        name = endpoint.model or models[0].name
        chosen = next((model for model in models if model.name == name), None)
        if chosen is None:
            raise NoSuchModelError(
                f"{endpoint.base_url} serves no model '{name}'",
                remedy=f"it serves {', '.join(model.name for model in models)}",
            )
        # An adapter's own entry has no length: it is its base's.
        return replace(
            endpoint,
            model=name,
            max_model_len=chosen.max_model_len or models[0].max_model_len,
            version=await _version(client),
        )


async def _version(client: EngineClient) -> str | None:
    """vLLM answers /version; others need not."""
    try:
        answer = await client.get_json("/version")
    except CannotDecideError:
        return None
    version = answer.get("version") if isinstance(answer, dict) else None
    return version if isinstance(version, str) else None
