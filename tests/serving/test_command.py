from __future__ import annotations

import sys
from pathlib import Path

import pytest

from modelctl.errors import CannotDecideError
from modelctl.model.release import Serving
from modelctl.model.tree import scan_tree
from modelctl.serving.adapters import served_adapter
from modelctl.serving.command import engine_command, engine_flags, flags_in_force
from modelctl.settings import Engine
from tests.support.models import tiny_llama, tiny_lora

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
        "--block-size": "128",
        "--generation-config": "vllm",
        "--seed": "0",
        "--max-model-len": "4096",
    }
    with_gpu = engine_flags(serving, socket=SOCKET, gpu=True)
    assert with_gpu["--gpu-memory-utilization"] == "0.9"
    assert with_gpu["--block-size"] == "16"
    stated = engine_flags(serving.model_copy(update={"block_size": 64}), socket=SOCKET, gpu=True)
    assert stated["--block-size"] == "64"


def test_an_adapter_is_a_module_of_its_base(tmp_path: Path) -> None:
    tree, base = scan_tree(tiny_lora(tmp_path / "adapter", rank=12)), scan_tree(tiny_llama(tmp_path / "base"))
    flags = engine_flags(Serving(), socket=SOCKET, gpu=False, adapter=served_adapter(tree, base))
    words = engine_command(Engine(command=f"{sys.executable} serve"), base.root, flags)
    line = " ".join(words[2:])
    assert line.startswith(f"{base.root} --served-model-name modelctl-base ")
    assert line.endswith(
        f" --enable-lora --max-loras 1 --max-lora-rank 16 --lora-modules modelctl={tmp_path / 'adapter'}"
    )


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


def test_a_program_with_a_relative_path_is_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "engine"
    program.parent.mkdir()
    program.symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    command = engine_command(Engine(command="bin/engine serve"), Path("/model"), {})
    assert command == [str(program), "serve", "/model"]
