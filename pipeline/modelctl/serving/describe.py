"""Asks a running engine who it is: the model's name, its longest context and the engine's version."""

from __future__ import annotations

from dataclasses import replace

from modelctl.errors import CannotDecideError
from modelctl.serving.client import EngineClient
from modelctl.serving.endpoint import Endpoint

_ANSWER_TIMEOUT_S = 30.0


async def describe(endpoint: Endpoint) -> Endpoint:
    """The endpoint with what the engine says of itself filled in. Raises `CannotDecideError`."""
    async with EngineClient(endpoint, silence_limit_s=_ANSWER_TIMEOUT_S, time_limit_s=_ANSWER_TIMEOUT_S) as client:
        models = await client.get_json("/v1/models")
        data = models.get("data") if isinstance(models, dict) else None
        first = data[0] if isinstance(data, list) and data else None
        if not isinstance(first, dict) or not isinstance(first.get("id"), str):
            raise CannotDecideError(
                f"{endpoint.base_url}/v1/models lists no model", remedy="is this an OpenAI-compatible server?"
            )
        length = first.get("max_model_len")
        return replace(
            endpoint,
            model=first["id"],
            max_model_len=length if isinstance(length, int) else None,
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
