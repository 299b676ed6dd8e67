"""The isolated child that quantises one model with gptqmodel; it loads weights and tokenizer, never the model's own
code.

Request: `source` and `output` folders, `bits`, `group_size`, `desc_act`, `exclude`, `samples`, `sample_tokens`,
`seed`, `dtype`, `widen` (multiply half types in float32), `texts`. Result: `modules` that were quantised, the
`text_tokens` that there were to choose from, `device`, `instructions` and `peak_memory_bytes`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from modelctl.accuracy.widening import widen
from modelctl.worker import serve


def windows(tokens: Sequence[int], *, count: int, length: int, seed: int) -> list[list[int]]:
    """`count` windows of `length` tokens, spread evenly over the text read as a ring; the seed shifts where they start.

    They overlap once `count * length` exceeds the text, so that any number of samples can be served.
    """
    if not tokens:
        raise ValueError("the tokenizer makes no tokens of the calibration text")
    shift = random.Random(seed).randrange(len(tokens))  # noqa: S311 - a sample, no secret
    found = []
    for number in range(count):
        start = shift + number * len(tokens) // count
        found.append([tokens[(start + offset) % len(tokens)] for offset in range(length)])
    return found


def quantize(request: Any, progress: Callable[..., None]) -> dict[str, object]:
    """Quantise and save; `progress` is told of each layer."""
    import torch
    import transformers
    from gptqmodel import GPTQModel, QuantizeConfig

    work = Path(request["output"], "work")
    work.mkdir()
    os.chdir(work)  # gptqmodel writes a log into the current folder
    seed = int(request["seed"])
    transformers.set_seed(seed)
    torch.use_deterministic_algorithms(True, warn_only=True)
    if request["widen"]:
        widen()
    progress(describe="load the model")
    tokenizer = transformers.AutoTokenizer.from_pretrained(request["source"])
    tokens: list[int] = []
    for text in request["texts"]:
        tokens += tokenizer(text, add_special_tokens=False)["input_ids"]
        if len(tokens) >= request["samples"] * request["sample_tokens"]:
            break
    samples = windows(tokens, count=request["samples"], length=request["sample_tokens"], seed=seed)
    config = QuantizeConfig(
        bits=request["bits"],
        group_size=request["group_size"],
        desc_act=request["desc_act"],
        # A leading "-:" leaves the matching modules as they are.
        dynamic={f"-:.*(?:{pattern}).*": {} for pattern in request["exclude"]} or None,
        offload_to_disk=False,
        pack_impl="original",  # the other one compiles C++ first
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = GPTQModel.load(
        request["source"], config, dtype=getattr(torch, request["dtype"]), trust_remote_code=False, device=device
    )
    done: set[int] = set()

    def layer_complete(*, layer_idx: int, submodule_finalized: bool) -> None:
        # gptqmodel reports a layer twice: when its modules are computed and when they are packed.
        if layer_idx not in done:
            done.add(layer_idx)
            progress(advance=1, describe=f"layer {layer_idx}")

    model.layer_callback = layer_complete
    logs = model.quantize(
        [{"input_ids": sample, "attention_mask": [1] * len(sample)} for sample in samples], batch_size=4
    )
    progress(describe="save")
    model.save(str(Path(request["output"])))
    return {
        "modules": sum(len(entries) for entries in logs.values()),
        "text_tokens": len(tokens),
        "device": device,
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "peak_memory_bytes": _peak_bytes(),
    }


def _peak_bytes() -> int:
    """The most resident memory of this process so far."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM"))


if __name__ == "__main__":
    serve(quantize)
