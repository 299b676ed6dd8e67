"""The isolated child that quantises one model with gptqmodel; it loads weights and tokenizer, never the model's own
code.

Request: `source` and `output` folders, `bits`, `group_size`, `desc_act`, `exclude`, `samples`, `sample_tokens`,
`seed`, `dtype`, `text`. Result: `layers` that were worked on, `modules` that were quantised and the calibration
`tokens` they saw.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

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

    seed = int(request["seed"])
    transformers.set_seed(seed)
    torch.use_deterministic_algorithms(True, warn_only=True)
    progress(describe="load the model")
    tokenizer = transformers.AutoTokenizer.from_pretrained(request["source"])
    tokens = tokenizer(request["text"], add_special_tokens=False)["input_ids"]
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
    model = GPTQModel.load(
        request["source"], config, dtype=getattr(torch, request["dtype"]), trust_remote_code=False, device="cpu"
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
    modules = sum(len(entries) for entries in logs.values())
    return {"layers": len(done), "modules": modules, "tokens": sum(len(sample) for sample in samples)}


if __name__ == "__main__":
    serve(quantize)
