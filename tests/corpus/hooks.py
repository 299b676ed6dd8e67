"""Configurations that make a loader run Python or machine code, though the repository may have none."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.corpus.base import Input, as_json, edited

GROUP = "configurations"
_VLLM = "CVE-2025-66448, CVE-2026-22807 (vLLM): auto_map is followed whatever trust_remote_code says"
_HARMLESS = b"import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n"


def inputs() -> Iterator[Input]:
    """All of them."""
    yield from _auto_map()
    yield from _others()


def _input(name: str, what: str, report: str, path: str, data: bytes, *rules: str) -> Input:
    return Input(id=f"config-{name}", group=GROUP, what=what, report=report, files={path: data}, rules=rules)


def _auto_map() -> Iterator[Input]:
    rule = "code.auto-map"
    elsewhere = {"AutoModelForCausalLM": "attacker/model--modeling_x.Model"}
    yield _input(
        "auto-map",
        "auto_map to another repository",
        _VLLM,
        "config.json",
        edited("config.json", auto_map=elsewhere),
        rule,
    )
    own = {"config.json": edited("config.json", auto_map={"AutoModel": "modeling_x.Model"}), "modeling_x.py": _HARMLESS}
    yield Input(
        id="config-auto-map-own",
        group=GROUP,
        what="auto_map to the repository's own, harmless code",
        report=_VLLM,
        files=own,
        rules=(rule,),
    )
    tokenizer = {"AutoTokenizer": ["attacker/model--tok.Tok", None]}
    yield _input(
        "auto-map-tokenizer",
        "auto_map of a tokenizer",
        _VLLM,
        "tokenizer_config.json",
        edited("tokenizer_config.json", auto_map=tokenizer),
        rule,
    )
    processor = {"auto_map": {"AutoProcessor": "attacker/model--processing.P"}, "processor_class": "P"}
    yield _input(
        "auto-map-processor", "auto_map of a processor", _VLLM, "preprocessor_config.json", as_json(processor), rule
    )
    nested = edited("config.json", vision_tower={"encoder": {"auto_map": elsewhere}})
    yield _input(
        "auto-map-nested",
        "auto_map two levels down",
        "CVE-2026-27893 (vLLM): code of a sub-model",
        "config.json",
        nested,
        rule,
    )
    whole = json.dumps({"auto_map": elsewhere})
    escaped = edited("config.json").rstrip()[:-1] + b"," + whole.replace("auto", "\\u0061uto")[1:].encode()
    yield _input(
        "auto-map-escaped",
        "auto_map spelt with an escape",
        "RFC 8259, 7: escapes in names",
        "config.json",
        escaped,
        rule,
    )
    twice = edited("config.json", auto_map=elsewhere).rstrip()[:-1] + b', "auto_map": null}'
    yield _input(
        "auto-map-twice",
        "auto_map twice, the second empty",
        "RFC 8259, 4: programs differ in which name they take",
        "config.json",
        twice,
        rule,
        "integrity.config",
    )
    adapter = {"peft_type": "LORA", "base_model_name_or_path": "x/y", "auto_mapping": None, "auto_map": elsewhere}
    yield _input(
        "auto-map-adapter",
        "auto_map in a folder of an adapter",
        _VLLM,
        "adapter/adapter_config.json",
        as_json(adapter),
        rule,
    )


def _others() -> Iterator[Input]:
    trust = edited("config.json", trust_remote_code=True)
    yield _input(
        "trust",
        "a configuration that trusts itself",
        "CVE-2026-27893 (vLLM): trust_remote_code from within",
        "config.json",
        trust,
        "code.trust-remote-code",
    )
    diffusers = "CVE-2026-44513, GHSA-98h9-4798-4q5v (diffusers): custom pipelines and components"
    index = {"_class_name": ["pipeline", "MyPipeline"], "unet": ["diffusers", "UNet2DModel"]}
    yield _input(
        "pipeline",
        "a diffusers pipeline of the repository's own",
        diffusers,
        "model_index.json",
        as_json(index),
        "code.custom-pipeline",
    )
    index = {"_class_name": "StableDiffusionPipeline", "unet": ["my_unet", "MyUNet"]}
    yield _input(
        "component",
        "a diffusers component of the repository's own",
        diffusers,
        "model_index.json",
        as_json(index),
        "code.custom-pipeline",
    )
    pipelines = {"x": {"impl": "pipeline_x.P", "pt": ["AutoModel"]}}
    yield _input(
        "custom-pipelines",
        "a transformers pipeline of its own",
        "transformers docs, custom_pipelines",
        "config.json",
        edited("config.json", custom_pipelines=pipelines),
        "code.custom-pipeline",
    )
    sentence = "huggingface/sentence-transformers#3683, #3801: modules.json imports any module"
    modules = [{"idx": 0, "name": "0", "path": "", "type": "os.system"}]
    yield _input(
        "modules",
        "a sentence-transformers module of any name",
        sentence,
        "modules.json",
        as_json(modules),
        "code.custom-pipeline",
    )
    hydra = "CVE-2025-23304 and Unit 42 2026: _target_ in NeMo, Uni2TS and FlexTok"
    yield _input(
        "hydra",
        "a configuration that names what to call",
        hydra,
        "generator.json",
        as_json({"net": {"_target_": "builtins.eval", "_args_": ["1"]}}),
        "code.custom-pipeline",
    )
    yield _input(
        "hydra-yaml",
        "the same in YAML",
        hydra,
        "conf/model.yaml",
        b"net:\n  _target_: os.system\n  command: 'true'\n",
        "code.",
    )
    kernels = "transformers docs, loading kernels: attn_implementation names a repository of machine code"
    kernel = edited("config.json", attn_implementation="attacker/flash-attn")
    yield _input("kernel", "attention from a repository of the Hub", kernels, "config.json", kernel, "code.")
    kernel = edited("config.json", _attn_implementation_internal="attacker/flash-attn:forward")
    yield _input("kernel-internal", "the same under its private name", kernels, "config.json", kernel, "code.")
