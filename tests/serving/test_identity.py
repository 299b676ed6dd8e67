from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest

from modelctl.serving.client import EngineClient
from modelctl.serving.endpoint import Endpoint
from modelctl.serving.identity import EngineIdentity, identify, read_head, read_identity
from tests.support.engine import FaultEngine

SILENT = Endpoint(base_url="http://engine", model="m", max_model_len=None)
CONFIG = (
    "(EngineCore pid=21) INFO 11-30 18:54:15 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: "
    "model='/m', speculative_config=None, tokenizer='/m', trust_remote_code=False, dtype=torch.bfloat16, "
    "max_seq_len=1024, download_dir=None, load_format=auto, quantization=gptq_marlin, quantization_config=None, "
    "enforce_eager=True, kv_cache_dtype=auto, device_config=cuda, seed=0\n"
)
POOL = (
    "(EngineCore pid=21) INFO 11-30 18:54:38 [kv_cache_utils.py:2327] GPU KV cache size: 46,592 tokens, Maximum "
    "concurrency for 1,024 tokens per request: 45.50x\n"
)
PAGE = (
    'vllm:cache_config_info{block_size="128",cache_dtype="fp8",effective_attention_block_size="128",engine="0",'
    'kv_cache_size_tokens="None",num_gpu_blocks="364"} 1.0\n'
)


def backend(line: str) -> str | None:
    return identify(SILENT, "", line + "\n").attention_backend


def test_everything_that_an_engine_says_is_read() -> None:
    flash = (
        "(Worker pid=34) INFO 11-30 18:54:36 [cuda.py:506] Using FLASH_ATTN attention backend out of potential "
        "backends: ['FLASH_ATTN', 'FLASHINFER'].\n"
    )
    found = identify(SILENT, PAGE, CONFIG + flash + POOL)
    assert found == EngineIdentity(
        version="0.32.0",
        max_model_len=1024,
        kv_blocks=363,
        kv_block_size=128,
        kv_tokens=46592,
        kv_dtype="fp8",
        dtype="bfloat16",
        quantization="gptq_marlin",
        device="cuda",
        attention_backend="FLASH_ATTN",
        compiled=False,
    )
    assert found.unread == ()
    assert found.flash_attention is True


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("INFO 11-30 18:54:36 [cuda.py:446] Using FLASHINFER backend.", "FLASHINFER"),
        ("INFO 06-06 03:09:30 [cuda.py:301] Using Flash Attention backend on V1 engine.", "Flash Attention"),
        ("INFO 05-19 01:02:03 [cpu.py:175] Using CPU_MLA backend.", "CPU_MLA"),
        ("INFO 05-19 01:02:03 [cpu.py:174] Cannot use FLASH_ATTN backend on CPU.", None),
        ("INFO 05-19 01:02:03 [config.py:1] Using fancy backend", None),
        ("Using EVIL attention backend out of potential backends", None),
    ],
)
def test_the_attention_backend_is_read_from_vllms_own_lines_of_several_releases(words: str, name: str | None) -> None:
    assert backend(words) == name


def test_flash_attention_is_named_with_its_version() -> None:
    lines = (
        "INFO 11-30 18:54:36 [cuda.py:506] Using FLASH_ATTN attention backend out of potential backends: [].\n"
        "INFO 11-30 18:54:36 [flash_attn.py:1118] Using FlashAttention version 3"
    )
    assert backend(lines) == "FLASH_ATTN (version 3)"


def test_what_nobody_says_is_listed_and_not_guessed() -> None:
    found = identify(SILENT, "", "")
    assert found.flash_attention is None
    assert found.unread == (
        "its version", "its maximum length", "its KV pool", "the data type of its KV cache", "its data type",
        "its device", "its attention backend",
    )  # fmt: skip


def test_answers_win_over_the_log(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text(CONFIG)

    async def ask(engine: FaultEngine) -> EngineIdentity:
        async with EngineClient(dataclasses.replace(engine.endpoint, log=log)) as client:
            return await read_identity(client)

    with FaultEngine(tmp_path) as engine:
        found = asyncio.run(ask(engine))
    assert (found.version, found.max_model_len, found.dtype) == ("0.0-fault", 512, "bfloat16")
    assert (found.kv_blocks, found.kv_block_size) == (1000, 16)


def test_a_log_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    assert read_head(tmp_path / "none.log") == ""
