"""Asks a running engine who it is: the model's name, its longest context and the engine's version."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from urllib.parse import urlsplit

from modelctl.errors import CannotDecideError, InputError
from modelctl.serving.client import EngineClient
from modelctl.serving.endpoint import Endpoint

_ANSWER_TIMEOUT_S = 30.0


def attach(url: str) -> Endpoint:
    """A running engine at `http(s)://host:port`; a trailing `/v1` is taken off.

    Raises `InputError` for something that is no URL, `CannotDecideError` when no OpenAI-compatible engine answers
    there.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"'{url}' is no engine URL", remedy="write http://host:port")
    base = url.rstrip("/").removesuffix("/v1").rstrip("/")
    if urlsplit(base).path:
        raise InputError(f"'{url}' has a path that is not /v1", remedy=f"write {parts.scheme}://{parts.netloc}")
    return asyncio.run(describe(Endpoint(base_url=base, model="", max_model_len=None)))


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
