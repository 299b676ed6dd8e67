"""Quantising with gptqmodel and answering with lm-eval as their own examples do it: what `quantization` is set beside.

`by_hand.py quantise MODEL OUT INPUTS` and `by_hand.py answer MODEL INPUTS`, each in a process of its own. INPUTS is a
JSON file with the recipe, the calibration text, the documents to answer and the texts to read, as modelctl took them.
The arithmetic is modelctl's too (float32 where the processor has no bfloat16, weights unpacked once): what is compared
is what modelctl does around it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def quantise(model: str, out: str, inputs: dict[str, Any]) -> None:
    """Quantise and save."""
    import torch
    from gptqmodel import GPTQModel, QuantizeConfig
    from transformers import AutoTokenizer, set_seed

    from modelctl.accuracy.precision import widened
    from modelctl.accuracy.quantize_worker import windows
    from modelctl.accuracy.widening import widen

    if widened("bfloat16"):
        widen()
    set_seed(0)
    tokens = AutoTokenizer.from_pretrained(model)(inputs["text"], add_special_tokens=False)["input_ids"]
    samples = windows(tokens, count=inputs["samples"], length=inputs["sample_tokens"], seed=0)
    config = QuantizeConfig(
        bits=4, group_size=inputs["group_size"], desc_act=False, offload_to_disk=False, pack_impl="original"
    )
    loaded = GPTQModel.load(model, config, dtype=torch.bfloat16, device="cpu")
    rows = [{"input_ids": sample, "attention_mask": [1] * len(sample)} for sample in samples]
    loaded.quantize(rows, batch_size=4)
    loaded.save(out)


def answer(model: str, inputs: dict[str, Any]) -> None:
    """Answer the documents and read the texts, as one call of lm-eval each."""
    import lm_eval
    import torch
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from modelctl.accuracy import task_loading
    from modelctl.accuracy.unpacking import load_gptq

    dtype = getattr(torch, inputs["dtype"])
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    if "quantization_config" in json.loads(Path(model, "config.json").read_text(encoding="utf-8")):
        loaded = load_gptq(model, half=torch.bfloat16, dtype=dtype, device="cpu")
    else:
        loaded = AutoModelForCausalLM.from_pretrained(model, dtype=dtype)
    driver = HFLM(
        pretrained=loaded,
        tokenizer=AutoTokenizer.from_pretrained(model),
        backend="causal",
        batch_size=inputs["batch_size"],
    )
    lm_eval.simple_evaluate(
        model=driver,
        tasks=list(task_loading.load(tuple(inputs["documents"]), folder=None).values()),
        samples=inputs["documents"],
        task_manager=TaskManager(include_defaults=False),
        bootstrap_iters=0,
        log_samples=True,
    )
    driver.loglikelihood_rolling(
        [Instance(request_type="loglikelihood_rolling", doc={}, arguments=(text,), idx=0) for text in inputs["texts"]]
    )


if __name__ == "__main__":
    mode, *arguments, inputs_file = sys.argv[1:]
    given = json.loads(Path(inputs_file).read_text(encoding="utf-8"))
    if mode == "quantise":
        quantise(arguments[0], arguments[1], given)
    else:
        answer(arguments[0], given)
