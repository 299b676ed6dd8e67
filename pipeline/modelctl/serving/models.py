"""Picks one of the models that an engine serves: the base, or an adapter by its name."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from modelctl.errors import CannotDecideError, InputError
from modelctl.serving.client import EngineClient
from modelctl.serving.endpoint import Endpoint

_ANSWER_TIMEOUT_S = 30.0


@dataclass(frozen=True, kw_only=True)
class ListedModel:
    """One entry of `/v1/models`."""

    name: str
    max_model_len: int | None
    parent: str | None
    """Of an adapter: its base."""


async def listed_models(client: EngineClient) -> tuple[ListedModel, ...]:
    """What the engine serves, at least one. Raises `CannotDecideError`."""
    answer = await client.get_json("/v1/models")
    data = answer.get("data") if isinstance(answer, dict) else None
    found = [
        ListedModel(
            name=entry["id"],
            max_model_len=length if isinstance(length := entry.get("max_model_len"), int) else None,
            parent=parent if isinstance(parent := entry.get("parent"), str) else None,
        )
        for entry in (data if isinstance(data, list) else [])
        if isinstance(entry, dict) and isinstance(entry.get("id"), str)
    ]
    if not found:
        raise CannotDecideError(
            f"{client.endpoint.base_url}/v1/models lists no model", remedy="is this an OpenAI-compatible server?"
        )
    return tuple(found)


def choose_model(endpoint: Endpoint, name: str) -> Endpoint:
    """The endpoint with another of its models. Raises `InputError` when it serves none of that name."""
    models = asyncio.run(_list(endpoint))
    chosen = next((model for model in models if model.name == name), None)
    if chosen is None:
        served = ", ".join(model.name for model in models)
        raise InputError(f"{endpoint.base_url} serves no model '{name}'", remedy=f"it serves {served}")
    # An adapter's own entry has no length: it is its base's.
    return replace(endpoint, model=name, max_model_len=chosen.max_model_len or endpoint.max_model_len)


def choose_adapter(endpoint: Endpoint) -> Endpoint:
    """The endpoint with the one adapter that it serves. Raises `CannotDecideError` when there is none, or several."""
    adapters = [model.name for model in asyncio.run(_list(endpoint)) if model.parent is not None]
    if len(adapters) != 1:
        found = f"serves {len(adapters)} adapters ({', '.join(adapters)})" if adapters else "serves no adapter"
        raise CannotDecideError(
            f"{endpoint.base_url} {found}, and the release is one",
            remedy="start the engine on the base with --enable-lora --lora-modules NAME=FOLDER, and this adapter alone",
        )
    return choose_model(endpoint, adapters[0])


async def _list(endpoint: Endpoint) -> tuple[ListedModel, ...]:
    async with EngineClient(endpoint, silence_limit_s=_ANSWER_TIMEOUT_S, time_limit_s=_ANSWER_TIMEOUT_S) as client:
        return await listed_models(client)
