"""Tiny real model folders, written byte by byte: an engine loads them, and every test may break them in its own way.

`tiny_llama` is a LlamaForCausalLM with random bfloat16 weights and a trained byte-level BPE tokenizer, the same to the
byte for the same arguments. `write_safetensors` and `raw_safetensors` also make files that no library would write.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

Tensor = tuple[str, Sequence[int], bytes]
"""dtype as safetensors names it, shape, little-endian bytes."""

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
_CORPUS = (
    "A release is admitted when every check has passed on the same bytes.",
    "The quick brown fox jumps over the lazy dog; 0123456789 times.",
    "Größe, naïve, 你好, emoji 🙂 and tabs\tand\nnew lines.",
)


def tiny_llama(
    folder: Path,
    *,
    vocab: int = 320,
    layers: int = 2,
    hidden: int = 64,
    heads: int = 4,
    kv_heads: int = 2,
    intermediate: int = 128,
    max_positions: int = 256,
    tie: bool = True,
    shards: int = 1,
    seed: int = 0,
) -> Path:
    """Write a loadable model folder and return it. `vocab` is at least 300; `shards` over 1 writes an index too."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "bos_token_id": 1,
        "dtype": "bfloat16",
        "eos_token_id": 2,
        "head_dim": hidden // heads,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "max_position_embeddings": max_positions,
        "model_type": "llama",
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "num_key_value_heads": kv_heads,
        "pad_token_id": 0,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": tie,
        "vocab_size": vocab,
    }
    write_json(folder / "config.json", config)
    write_json(folder / "generation_config.json", {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0})
    write_tokenizer(folder, vocab=vocab)
    tensors = llama_tensors(
        vocab=vocab, layers=layers, hidden=hidden, heads=heads, kv_heads=kv_heads, intermediate=intermediate,
        tie=tie, seed=seed,
    )  # fmt: skip
    write_weights(folder, tensors, shards=shards)
    return folder


def tiny_lora(
    folder: Path, *, base: str = "org/base", hidden: int = 64, layers: int = 2, rank: int = 4, strength: float = 1.0
) -> Path:
    """Write an adapter of the query projections of `tiny_llama`, or of another Llama with as many query features as
    hidden ones, and return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "base_model_name_or_path": base,
        "bias": "none",
        "lora_alpha": 4 * rank,
        "lora_dropout": 0.0,
        "peft_type": "LORA",
        "r": rank,
        "target_modules": ["q_proj"],
        "task_type": "CAUSAL_LM",
    }
    write_json(folder / "adapter_config.json", config)
    random = np.random.default_rng(0)
    tensors: dict[str, Tensor] = {}
    for layer in range(layers):
        module = f"base_model.model.model.layers.{layer}.self_attn.q_proj"
        for half, shape in (("A", (rank, hidden)), ("B", (hidden, rank))):
            tensors[f"{module}.lora_{half}.weight"] = ("BF16", shape, bfloat16(random.normal(0, strength, shape)))
    write_safetensors(folder / "adapter_model.safetensors", tensors)
    return folder


def picture_model(folder: Path, *, max_positions: int) -> Path:
    """A model folder whose config.json has a vision part, for engines that are not real."""
    tiny_llama(folder, max_positions=max_positions)
    config = json.loads((folder / "config.json").read_text())
    vision = {"hidden_size": 8, "model_type": "clip_vision_model"}
    write_json(
        folder / "config.json", config | {"architectures": ["LlavaForConditionalGeneration"], "vision_config": vision}
    )
    return folder


def embedding_model(folder: Path, *, max_positions: int) -> Path:
    """A model folder whose architecture has no language-model head."""
    tiny_llama(folder, max_positions=max_positions)
    config = json.loads((folder / "config.json").read_text())
    write_json(folder / "config.json", config | {"architectures": ["LlamaModel"]})
    return folder


def tiny_bert(folder: Path, *, vocab: int = 320, max_positions: int = 256) -> Path:
    """Write an encoder with random weights that an engine loads as an embedding model, and return its folder."""
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=vocab, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128,
        max_position_embeddings=max_positions,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    write_tokenizer(folder, vocab=vocab)
    return folder


def tiny_blip2(folder: Path, *, vocab: int = 320, max_positions: int = 512) -> Path:
    """Write a vision-language model with random weights, and return its folder: BLIP-2, whose picture takes four tokens
    before an OPT, because an engine loads it without torchvision."""
    import torch
    from tokenizers import Tokenizer
    from transformers import (
        Blip2Config,
        Blip2ForConditionalGeneration,
        Blip2QFormerConfig,
        Blip2VisionConfig,
        OPTConfig,
    )

    torch.manual_seed(0)
    pixels, small = 28, {"num_hidden_layers": 2, "num_attention_heads": 2}
    config = Blip2Config(
        vision_config=Blip2VisionConfig(hidden_size=32, intermediate_size=64, image_size=pixels, **small).to_dict(),
        qformer_config=Blip2QFormerConfig(
            hidden_size=32, intermediate_size=64, encoder_hidden_size=32, vocab_size=vocab, **small
        ).to_dict(),
        text_config=OPTConfig(
            vocab_size=vocab + 1, hidden_size=64, word_embed_proj_dim=64, ffn_dim=128, num_hidden_layers=2,
            num_attention_heads=2, max_position_embeddings=max_positions, bos_token_id=1, eos_token_id=2,
            pad_token_id=0,
        ).to_dict(),
        num_query_tokens=4, image_token_index=vocab,
    )  # fmt: skip
    model = Blip2ForConditionalGeneration(config)
    for weights in model.parameters():
        if weights.dim() > 1:
            torch.nn.init.normal_(weights, 0, 0.3)  # so large that a picture changes the answer
    model.save_pretrained(folder)
    write_tokenizer(folder, vocab=vocab)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    missing = vocab - tokenizer.get_vocab_size()
    tokenizer.add_special_tokens([*(f"<|spare{number}|>" for number in range(missing)), "<image>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    images = {
        "do_convert_rgb": True, "do_normalize": True, "do_rescale": True, "do_resize": True, "image_mean": [0.5] * 3,
        "image_processor_type": "BlipImageProcessor", "image_std": [0.5] * 3, "processor_class": "Blip2Processor",
        "resample": 3, "rescale_factor": 1 / 255, "size": {"height": pixels, "width": pixels},
    }  # fmt: skip
    write_json(folder / "preprocessor_config.json", images)
    return folder


def llama_tensors(
    *, vocab: int, layers: int, hidden: int, heads: int, kv_heads: int, intermediate: int, tie: bool, seed: int
) -> dict[str, Tensor]:
    """Random bfloat16 tensors under the names that LlamaForCausalLM loads."""
    random = np.random.default_rng(seed)
    kv = hidden // heads * kv_heads
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocab, hidden), "model.norm.weight": (hidden,)}
    if not tie:
        shapes["lm_head.weight"] = (vocab, hidden)
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        shapes |= {
            prefix + "input_layernorm.weight": (hidden,),
            prefix + "post_attention_layernorm.weight": (hidden,),
            prefix + "self_attn.q_proj.weight": (hidden, hidden),
            prefix + "self_attn.k_proj.weight": (kv, hidden),
            prefix + "self_attn.v_proj.weight": (kv, hidden),
            prefix + "self_attn.o_proj.weight": (hidden, hidden),
            prefix + "mlp.gate_proj.weight": (intermediate, hidden),
            prefix + "mlp.up_proj.weight": (intermediate, hidden),
            prefix + "mlp.down_proj.weight": (hidden, intermediate),
        }
    tensors: dict[str, Tensor] = {}
    for name, shape in shapes.items():
        values = np.ones(shape) if name.endswith("norm.weight") else random.normal(0, 0.05, shape)
        tensors[name] = ("BF16", shape, bfloat16(values))
    return tensors


def bfloat16(values: npt.NDArray[np.float64]) -> bytes:
    """The little-endian bfloat16 bytes of an array, truncated (not rounded)."""
    return (values.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()


def write_weights(folder: Path, tensors: Mapping[str, Tensor], *, shards: int = 1) -> None:
    """Write `model.safetensors`, or `shards` numbered files and their index."""
    if shards == 1:
        write_safetensors(folder / "model.safetensors", tensors)
        return
    weight_map: dict[str, str] = {}
    for number in range(shards):
        name = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        part = dict(list(tensors.items())[number::shards])
        write_safetensors(folder / name, part)
        weight_map |= dict.fromkeys(part, name)
    total = sum(len(data) for _, _, data in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    write_json(folder / "model.safetensors.index.json", index)


def write_safetensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """A valid safetensors file with the metadata that transformers writes."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    parts: list[bytes] = []
    begin = 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, begin + len(data)]}
        begin += len(data)
        parts.append(data)
    path.write_bytes(raw_safetensors(json.dumps(header).encode(), b"".join(parts)))


def raw_safetensors(header: bytes, data: bytes = b"", *, length: int | None = None) -> bytes:
    """A safetensors file of exactly these bytes; `length` lies about the header's."""
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def write_tokenizer(folder: Path, *, vocab: int) -> None:
    """tokenizer.json (byte-level BPE, at most `vocab` ids), tokenizer_config.json and chat_template.jinja."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    if vocab < 300:
        raise ValueError("a byte-level vocabulary needs 256 bytes, the special tokens and a few merges")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
        min_frequency=1,
    )
    tokenizer.train_from_iterator(_CORPUS, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "added_tokens_decoder": {
            str(index): {
                "content": token,
                "lstrip": False,
                "normalized": False,
                "rstrip": False,
                "single_word": False,
                "special": True,
            }
            for index, token in enumerate(SPECIAL_TOKENS)
        },
        "bos_token": "<|im_start|>",
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "model_max_length": 256,
        "pad_token": "<|endoftext|>",
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    write_json(folder / "tokenizer_config.json", settings)
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")


def write_json(path: Path, value: object) -> None:
    """Write JSON the way transformers does: sorted keys, two spaces, a final newline."""
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")
