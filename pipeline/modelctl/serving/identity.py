"""What a running engine really is: version, longest context, KV pool, attention backend, data types, device.

Flags say what was asked for and an engine decides for itself, so everything here is read from the engine: its answers,
its metrics (`vllm:cache_config_info`) and, where modelctl started it, its log. What none of these says stays None and
is listed in `unread`; nothing is guessed. The log quotes the model's config.json, so only words of a known shape are
taken, from the lines that vLLM writes itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from modelctl.errors import CannotDecideError
from modelctl.serving.client import EngineClient
from modelctl.serving.endpoint import Endpoint
from modelctl.serving.metrics import CACHE_CONFIG, parse_page, read_metrics

_HEAD_BYTES = 4 << 20
"""A log's beginning: everything here is said before the first request."""

_CONFIG = re.compile(
    r"Initializing a V1 LLM engine \(v(?P<version>[\w.+-]+)\) with config: .*?"
    r" dtype=torch\.(?P<dtype>\w+), max_seq_len=(?P<length>\d+), .*? quantization=(?P<quantization>[\w-]+),"
)
_DEVICE = re.compile(r" enforce_eager=\w+, .*?device_config=(?P<device>\w+)")
_BACKEND = (
    re.compile(r"Using (?P<name>\w+) attention backend out of potential backends"),
    re.compile(r"\[(?:cuda|cpu|rocm|xpu|interface)\.py:\d+\] Using (?P<name>[A-Za-z][\w -]{1,40}?) backend\b"),
)
"""How releases of vLLM name the attention backend that they chose."""
_FLASH_VERSION = re.compile(r"Using FlashAttention version (?P<version>\d)")
_POOL = re.compile(r"(?:GPU|CPU|\w+) KV cache size: (?P<tokens>[\d,]+) tokens")
_OWN_LINE = re.compile(r"^(?:\([^()]*\)\s*)*(?:DEBUG|INFO|WARNING)\s+\S+\s+\S+\s+\[")
_EAGER = re.compile(r" enforce_eager=(?P<eager>True|False),")


@dataclass(frozen=True, kw_only=True)
class EngineIdentity:
    """What an engine said of itself; None: it did not say."""

    version: str | None
    max_model_len: int | None
    """Tokens of prompt and answer."""
    kv_blocks: int | None
    """Blocks that requests can have, over all engines."""
    kv_block_size: int | None
    """Tokens of one block."""
    kv_tokens: int | None
    """Tokens that the pool holds, as the engine counts them."""
    kv_dtype: str | None
    """`auto` is the model's own data type."""
    dtype: str | None
    quantization: str | None
    """`none`: the engine says that there is none."""
    device: str | None
    attention_backend: str | None
    compiled: bool | None
    """False: started with `--enforce-eager`."""

    @property
    def unread(self) -> tuple[str, ...]:
        """What the engine does not say, in words."""
        words = (
            ("its version", self.version),
            ("its maximum length", self.max_model_len),
            ("its KV pool", self.kv_blocks),
            ("the data type of its KV cache", self.kv_dtype),
            ("its data type", self.dtype),
            ("its device", self.device),
            ("its attention backend", self.attention_backend),
        )
        return tuple(name for name, value in words if value is None)

    @property
    def flash_attention(self) -> bool | None:
        """Whether attention is FlashAttention's or FlashInfer's kernel; None when the backend was not read."""
        if self.attention_backend is None:
            return None
        return "flash" in self.attention_backend.lower()


async def read_identity(client: EngineClient) -> EngineIdentity:
    """Ask the engine of `client`, and read its log where there is one."""
    endpoint = client.endpoint
    try:
        page = await client.get_text("/metrics")
    except CannotDecideError:
        page = ""
    return identify(endpoint, page, read_head(endpoint.log) if endpoint.log else "")


def identify(endpoint: Endpoint, page: str, log: str) -> EngineIdentity:
    """Put together what `/v1/models` and `/version` (in `endpoint`), the metrics page and the log say."""
    log = "\n".join(_own_lines(log))
    config = _CONFIG.search(log)
    cache = _cache_config(page)
    metrics = read_metrics(page, at_s=0.0)
    device, eager, pool = _DEVICE.search(log), _EAGER.search(log), _POOL.search(log)
    return EngineIdentity(
        version=endpoint.version or (config["version"] if config else None),
        max_model_len=endpoint.max_model_len or (int(config["length"]) if config else None),
        kv_blocks=metrics.kv_blocks,
        kv_block_size=metrics.block_size,
        kv_tokens=_number(cache.get("kv_cache_size_tokens")) or (_number(pool["tokens"]) if pool else None),
        kv_dtype=cache.get("cache_dtype"),
        dtype=config["dtype"] if config else None,
        quantization=config["quantization"].replace("None", "none") if config else None,
        device=device["device"] if device else None,
        attention_backend=_backend(log),
        compiled=None if eager is None else eager["eager"] == "False",
    )


def read_head(log: Path, limit_bytes: int = _HEAD_BYTES) -> str:
    """The beginning of a log; empty when there is none."""
    try:
        with log.open("rb") as stream:
            return stream.read(limit_bytes).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def _backend(log: str) -> str | None:
    version = _FLASH_VERSION.search(log)
    for pattern in _BACKEND:
        found = pattern.search(log)
        if found is not None:
            name = found["name"]
            return f"{name} (version {version['version']})" if version and "FLASH_ATTN" in name else name
    return None


def _own_lines(log: str) -> list[str]:
    """Lines that vLLM's own logger wrote: a level, a date and a source file stand at their beginning."""
    return [line for line in log.split("\n") if _OWN_LINE.match(line)]


def _cache_config(page: str) -> dict[str, str]:
    samples = [sample for sample in parse_page(page) if sample.name == CACHE_CONFIG]
    return {key: value for key, value in samples[0].labels.items() if value != "None"} if samples else {}


def _number(text: str | None) -> int | None:
    digits = (text or "").replace(",", "")
    return int(digits) if digits.isdecimal() else None
