from __future__ import annotations

import sys
from pathlib import Path

import pytest

from modelctl.errors import CannotDecideError
from modelctl.model.release import Serving
from modelctl.serving.command import engine_command, engine_flags, flags_in_force
from modelctl.settings import Engine

MODEL = Path("/models/with space")
SOCKET = Path("/tmp/x/s")


def test_the_model_is_appended_as_vllm_serve_wants_it() -> None:
    words = engine_command(Engine(command=f"{sys.executable} serve"), MODEL, {"--seed": "0"})
    assert words == [sys.executable, "serve", "/models/with space", "--seed", "0"]


def test_the_model_goes_where_the_command_says_and_extra_arguments_last() -> None:
    settings = Engine(command=f"{sys.executable} -m engine --model {{model}} -q", args=("--enforce-eager",))
    words = engine_command(settings, MODEL, {"--seed": "0"})
    assert words[1:] == ["-m", "engine", "--model", "/models/with space", "-q", "--seed", "0", "--enforce-eager"]


def test_every_flag_is_explicit_and_gpu_flags_need_a_gpu() -> None:
    serving = Serving(max_model_len=4096, max_num_seqs=64, tensor_parallel_size=2)
    flags = engine_flags(serving, socket=SOCKET, gpu=False)
    assert flags == {
        "--served-model-name": "modelctl",
        "--uds": "/tmp/x/s",
        "--max-num-seqs": "64",
        "--max-num-batched-tokens": "8192",
        "--tensor-parallel-size": "2",
        "--generation-config": "vllm",
        "--seed": "0",
        "--max-model-len": "4096",
    }
    with_gpu = engine_flags(serving, socket=SOCKET, gpu=True)
    assert with_gpu["--gpu-memory-utilization"] == "0.9"


@pytest.mark.parametrize("command", [None, "", "no-such-engine-program serve", "vllm 'serve"])
def test_without_a_usable_command_the_person_is_told_which_setting(command: str | None) -> None:
    with pytest.raises(CannotDecideError) as caught:
        engine_command(Engine(command=command), MODEL, {})
    for words in ("engine.command", "MODELCTL_ENGINE_COMMAND", "--engine"):
        assert words in (caught.value.remedy or "")


def test_extra_arguments_override_flags() -> None:
    flags = flags_in_force(
        {"--max-num-seqs": "128"}, ("--max-num-seqs", "8", "--kv-cache-dtype=fp8", "--enforce-eager")
    )
    assert flags == {"--max-num-seqs": "8", "--kv-cache-dtype": "fp8", "--enforce-eager": "true"}
