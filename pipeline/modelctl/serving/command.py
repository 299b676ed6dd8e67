"""The command line of an engine: the configured program, the model's folder and every flag that the release decides.

Nothing is left to an engine's defaults, which differ between releases.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from modelctl.errors import CannotDecideError
from modelctl.model.release import Serving
from modelctl.serving.adapters import ServedAdapter
from modelctl.settings import Engine

SERVED_NAME = "modelctl"
BASE_NAME = "modelctl-base"
"""What an adapter's base is called; the adapter has `SERVED_NAME`."""
BLOCK_SIZES = {"gpu": 16, "cpu": 128}
"""Tokens of a KV block where the release does not say: what a rollout has on a GPU, and vLLM's own on a CPU."""
_SWITCHES = ("--enable-lora",)
"""Flags without a value."""
SET_COMMAND = (
    "set engine.command in modelctl.yaml, MODELCTL_ENGINE_COMMAND or --engine to the command that serves a folder, "
    "for example 'vllm serve'; or name a running engine with --endpoint"
)


def gpu_devices() -> tuple[Path, ...]:
    """The device files of this machine's GPUs."""
    return tuple(sorted(Path("/dev").glob("nvidia[0-9]*")))


def engine_flags(serving: Serving, *, socket: Path, gpu: bool, adapter: ServedAdapter | None = None) -> dict[str, str]:
    """Every flag that the release's serving section decides, and those that keep a measurement honest."""
    flags = {
        "--served-model-name": BASE_NAME if adapter else SERVED_NAME,
        "--uds": str(socket),
        "--max-num-seqs": str(serving.max_num_seqs),
        "--max-num-batched-tokens": str(serving.max_num_batched_tokens),
        "--tensor-parallel-size": str(serving.tensor_parallel_size),
        "--block-size": str(serving.block_size or BLOCK_SIZES["gpu" if gpu else "cpu"]),
        # The model's own generation_config.json would change sampling behind the check's back.
        "--generation-config": "vllm",
        "--seed": "0",
    }
    if serving.max_model_len is not None:
        flags["--max-model-len"] = str(serving.max_model_len)
    if gpu:
        flags["--gpu-memory-utilization"] = str(serving.gpu_memory_utilization)
    if adapter is not None:
        flags |= {
            "--enable-lora": "true",
            "--max-loras": "1",
            "--max-lora-rank": str(adapter.max_rank),
            "--lora-modules": f"{SERVED_NAME}={adapter.folder}",
        }
    return flags


def engine_command(settings: Engine, model: Path, flags: Mapping[str, str]) -> list[str]:
    """The argument vector: command, model (at `{model}`, else appended), flags, then `settings.args`, which win.

    A program that is named by a relative path is the one below the current folder: the engine starts in another.

    Raises `CannotDecideError` when no command is set, it can't be read or its program is missing.
    """
    if not settings.command:
        raise CannotDecideError("no engine command is set and no running engine was given", remedy=SET_COMMAND)
    try:
        words = shlex.split(settings.command)
    except ValueError as error:
        raise CannotDecideError(f"engine.command cannot be read: {error}", remedy=SET_COMMAND) from error
    program = shutil.which(words[0]) if words else None
    if program is None:
        raise CannotDecideError(f"engine.command: no such program: {settings.command}", remedy=SET_COMMAND)
    rest = [word.replace("{model}", str(model)) for word in words[1:]]
    if not any("{model}" in word for word in words):
        rest.append(str(model))
    given = [part for flag, value in flags.items() for part in ((flag,) if flag in _SWITCHES else (flag, value))]
    return [str(Path(program).absolute()), *rest, *given, *settings.args]


def flags_in_force(flags: Mapping[str, str], args: Sequence[str]) -> dict[str, str]:
    """The flags as the engine reads them: extra arguments come last and so override; a flag without a value is
    "true"."""
    found = dict(flags)
    for index, word in enumerate(args):
        if not word.startswith("--"):
            continue
        flag, equals, value = word.partition("=")
        following = args[index + 1] if index + 1 < len(args) else "--"
        found[flag] = value if equals else following if not following.startswith("--") else "true"
    return found
