"""Harmless model repositories: layouts, configurations, templates and texts that look odd and are in order."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping

import numpy as np

from tests.corpus.base import GATE, WHOLE, Input, as_json, edited, host
from tests.corpus.templates import gguf_model
from tests.support.models import CHAT_TEMPLATE, Tensor, raw_safetensors

GROUP = "benign models"
_HUB = "the Hub: common in model repositories"


def inputs() -> Iterator[Input]:
    """All of them."""
    yield _input("host", "a small model in order, as it is", _HUB, {}, checks=WHOLE)
    yield from _weights()
    yield from _configurations()
    yield from _templates()
    yield from _texts()


def _input(
    name: str, what: str, report: str, files: Mapping[str, bytes], *, without: tuple[str, ...] = (),
    checks: tuple[str, ...] = GATE, host: bool = True,
) -> Input:  # fmt: skip
    return Input(
        id=f"model-{name}", group=GROUP, what=what, report=report, files=files, without=without, checks=checks,
        host=host,
    )  # fmt: skip


def _tensors() -> dict[str, Tensor]:
    """The host's tensors by name: type, shape, bytes."""
    whole = host()["model.safetensors"]
    length = struct.unpack("<Q", whole[:8])[0]
    header = json.loads(whole[8 : 8 + length])
    header.pop("__metadata__")
    data = whole[8 + length :]
    return {
        name: (entry["dtype"], entry["shape"], data[entry["data_offsets"][0] : entry["data_offsets"][1]])
        for name, entry in header.items()
    }


def _packed(tensors: Mapping[str, Tensor], **metadata: str) -> bytes:
    header: dict[str, object] = {"__metadata__": metadata} if metadata else {}
    begin, parts = 0, []
    for name, (kind, shape, data) in tensors.items():
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [begin, begin + len(data)]}
        begin += len(data)
        parts.append(data)
    text = json.dumps(header).encode()
    return raw_safetensors(text + b" " * (-len(text) % 8), b"".join(parts))


def _weights() -> Iterator[Input]:
    tensors = _tensors()
    map_: dict[str, str] = {}
    files: dict[str, bytes] = {}
    for number in range(2):
        name = f"model-{number + 1:05}-of-00002.safetensors"
        part = dict(list(tensors.items())[number::2])
        files[name] = _packed(part, format="pt")
        map_ |= dict.fromkeys(part, name)
    total = sum(len(data) for _, _, data in tensors.values())
    files["model.safetensors.index.json"] = as_json({"metadata": {"total_size": total}, "weight_map": map_})
    yield _input("sharded", "weights in two shards", _HUB, files, without=("model.safetensors",))
    noted = _packed(tensors, format="pt", note="trained with exec(), eval and os.system in mind")
    yield _input("metadata", "metadata that mentions eval", "safetensors README, format", {"model.safetensors": noted})
    wide = {
        name: ("F32", shape, (np.frombuffer(data, "<u2").astype("<u4") << 16).tobytes())
        for name, (_, shape, data) in tensors.items()
    }
    full = {"model.safetensors": _packed(wide, format="pt"), "config.json": edited("config.json", dtype="float32")}
    yield _input("float32", "weights of 32 bits", _HUB, full)
    extra = {"extra/empty.safetensors": _packed({"nothing": ("F32", [0], b"")}, format="pt")}
    yield _input("empty-tensor", "a tensor without elements", "safetensors README: shapes may have zeros", extra)
    yield _input(
        "gguf",
        "a GGUF file with a chat template",
        "ggml, gguf.md",
        {"model.gguf": gguf_model(CHAT_TEMPLATE)},
        host=False,
    )


def _configurations() -> Iterator[Input]:
    odd = edited(
        "config.json", transformers_version="5.1.0", use_cache=True, rope_scaling=None, pretraining_tp=1,
        _name_or_path="/home/user/eval/exec", id2label={"0": "LABEL_0"}, attn_implementation="sdpa",
        task_specific_params={"import": "none"}, torch_dtype="bfloat16", custom_intermediate=[],
    )  # fmt: skip
    yield _input("odd-config", "a configuration with odd but legitimate keys", _HUB, {"config.json": odd})
    generation = edited(
        "generation_config.json", temperature=0.6, top_p=0.9, _from_model_config=True, stop_strings=["import os"]
    )
    yield _input(
        "generation",
        "a generation configuration that stops at `import os`",
        _HUB,
        {"generation_config.json": generation},
    )
    flash = edited("config.json", _attn_implementation="flash_attention_2")
    yield _input(
        "flash", "a configuration that asks for flash attention", "transformers docs, attention", {"config.json": flash}
    )
    trust = edited("config.json", trust_remote_code=False, auto_map=None)
    yield _input("no-trust", "trust_remote_code set to false", _HUB, {"config.json": trust})
    special = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    yield _input("special", "a special_tokens_map.json", _HUB, {"special_tokens_map.json": as_json(special)})
    modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]
    modules.append({"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"})
    yield _input(
        "sentence",
        "sentence-transformers' own modules",
        "sentence-transformers docs",
        {"modules.json": as_json(modules), "1_Pooling/config.json": as_json({"word_embedding_dimension": 64})},
    )
    trainer = {"log_history": [{"epoch": 0.1, "eval_loss": 1.5, "loss": 2.0}], "best_metric": None}
    yield _input("trainer", "the log of a training run", _HUB, {"trainer_state.json": as_json(trainer)})
    yaml = b"language: en\nlicense: apache-2.0\ntrain:\n  python: '3.11'\n  object: apply\n  target: model\n"
    yield _input("yaml", "YAML with the words python and object", _HUB, {"training.yaml": yaml})


_FAMILIES: Mapping[str, str] = {
    "chatml-system": (
        "{% if not messages[0].role == 'system' %}{{ '<|im_start|>system\\nYou help.<|im_end|>\\n' }}{% endif %}"
        + CHAT_TEMPLATE
    ),
    "loop-controls": (
        "{%- for message in messages -%}{%- if not message.content -%}{%- continue -%}{%- endif -%}"
        "{{- '<|im_start|>' + message.role + '\\n' + message.content | trim + '<|im_end|>\\n' -}}{%- endfor -%}"
        "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
    ),
    "namespace": (
        "{% set ns = namespace(found=false, index=0) %}{% for message in messages %}{% set ns.index = ns.index + 1 %}"
        "{% if message['role'] == 'system' %}{% set ns.found = true %}{% endif %}"
        "{{ '<|im_start|>' ~ message['role'] ~ '\\n' ~ message['content'] ~ '<|im_end|>\\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
    ),
    "macro": (
        "{% macro turn(role, text) %}{{ '<|im_start|>' + role + '\\n' + text + '<|im_end|>\\n' }}{% endmacro %}"
        "{% for message in messages %}{{ turn(message.role, message.content) }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
    ),
    "tools": (
        "{% if tools %}{{ '<|im_start|>system\\n' }}{% for tool in tools %}{{ tool | tojson(indent=2) }}{% endfor %}"
        "{{ '<|im_end|>\\n' }}{% endif %}" + CHAT_TEMPLATE
    ),
    "thinking": (
        "{% for message in messages %}{% set content = message.content %}{% if message.role == 'assistant' and "
        "'</think>' in content %}{% set content = content.split('</think>')[-1].lstrip('\\n') %}{% endif %}"
        "{{ '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% if enable_thinking is defined and "
        "enable_thinking is false %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}{% endif %}"
    ),
}


def _templates() -> Iterator[Input]:
    for name, template in _FAMILIES.items():
        yield _input(
            f"template-{name}", f"a chat template in the style of {name}", "transformers docs, chat templates",
            {"chat_template.jinja": template.encode()}, checks=WHOLE if name == "macro" else GATE,
        )  # fmt: skip


def _texts() -> Iterator[Input]:
    readme = (
        "---\nlicense: mit\n---\n# Model\n\nRun `eval` on the test set; never `exec` what it says.\n\n```python\n"
        "import os\nfrom transformers import pipeline\n\nos.system('nvidia-smi')\npipeline('text-generation')\n```\n"
    )
    yield _input("readme", "a README with eval, exec and an example", _HUB, {"README.md": readme.encode()})
    yield _input(
        "license-dat",
        "a license in license.dat",
        "modelctl's reference: content decides",
        {"license.dat": b"Permission is hereby granted, free of charge\n" * 20},
    )
    chunk = struct.pack(">I", 13) + b"IHDR" + struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    png = (
        b"\x89PNG\r\n\x1a\n"
        + chunk
        + struct.pack(">I", zlib.crc32(chunk[4:]))
        + bytes.fromhex("0000000049454e44ae426082")
    )
    yield _input("image", "a picture", "PNG specification", {"assets/figure.png": png})
    merges = "#version: 0.2\n" + "\n".join(f"{chr(97 + n % 26)} {chr(97 + n // 26)}" for n in range(300)) + "\n"
    yield _input(
        "merges",
        "merges and a vocabulary of code's words",
        _HUB,
        {"merges.txt": merges.encode(), "vocab_words.txt": b"import\nos\nclass\nexec\neval\nlambda\n"},
    )
    attributes = b"*.safetensors filter=lfs diff=lfs merge=lfs -text\n*.bin filter=lfs diff=lfs merge=lfs -text\n"
    yield _input("gitattributes", "git's attributes", "git-lfs docs", {".gitattributes": attributes})
    module = (
        b'"""A small model."""\n\nimport torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n'
        b"        return torch.relu(x)\n\n    def evaluate(self):\n        return self.eval()\n"
    )
    yield _input(
        "python", "a harmless module that calls model.eval()", "PyTorch docs, Module.eval", {"example.py": module}
    )
    cells = [
        {"cell_type": "markdown", "source": ["# Use\n", "`os.system`"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "x = 1"]},
    ]
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
    yield _input("notebook", "a harmless notebook", "nbformat docs", {"demo.ipynb": as_json(notebook)})
    hashes = b"sha256 hf_not_a_token AKIA 0123456789abcdef sk-short\n"
    yield _input("no-secret", "words that begin as credentials do", "CWE-312", {"notes.txt": hashes})
