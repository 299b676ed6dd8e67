"""What kind of repository a folder is, from its files and config.json, each kind with its evidence.

config.json describes at most one model; an adapter and GGUF files beside it are kinds of their own. The words of
`modules.json` win over the architecture: engines serve such a repository as an embedding model even where the
architecture could generate. Nothing is guessed: what fits no rule is `unknown`, and says why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from modelctl.errors import InputError
from modelctl.model.config import CONFIG_NAME, ModelConfig, load_config
from modelctl.model.strict_json import Json, read_object, read_value
from modelctl.model.tree import Tree

KindName = Literal[
    "causal-lm", "mixture-of-experts", "embedding", "vision-language", "lora-adapter", "gguf", "unknown"
]  # fmt: skip
"""`causal-lm` is dense; a causal language model with experts is `mixture-of-experts`."""

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
MODULES = "modules.json"
MAX_ADAPTERS = 16
"""Adapter configs of one repository that are read."""
_MAX_BYTES = 1 << 20
GGUF_MAGIC = b"GGUF"

_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "num_routed_experts")
"""The names of vLLM's model configuration (0.2x), and those of DBRX and of DeepSeek's first models."""
_VISION_SECTIONS = ("vision_config", "vision_tower_config", "visual", "vit_config")
_TOWER_KEYS = ("mm_vision_tower", "img_processor", "vision_backbone")
_IMAGE_TOKENS = ("image_token_id", "image_token_index", "vision_token_id")
"""Text-only models that were cut out of larger ones may keep these, so alone they prove nothing of a plain decoder."""
_NESTED = ("thinker_config", "language_config", "text_config", "llm_config")
_GENERATES = re.compile(
    r"(ForCausalLM|LMHeadModel|ForConditionalGeneration|ChatModel|OmniModel|ForCausalLMV|^ChatGLMModel|^AquilaModel"
    r"|^MiniCPM[VO]|^NVLM_D|^Ovis.*|_VL|_VL_V\d+|_Omni_Reasoning_V\d+)$"
)
_DRAFTS = re.compile(r"MTP|Draft|^P?[Ee]agle3?[A-Z]|Eagle3$|Medusa|DSpark|^DFlash|LMAssistant|AssistantModel")
_HEADLESS = re.compile(r"^(?!.*(Reward|Audio|Ultravox|LMModel|HiddenStates)).*Model$")
_ENCODER_DECODER = re.compile(r"ForConditionalGeneration$")


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind and the evidence for it, in words."""

    name: KindName
    because: str
    base: str | None = None
    """What an adapter was trained on, as its config names it (a Hub id or a path)."""


def is_adapter(kinds: Sequence[Kind]) -> bool:
    """Whether a repository is an adapter and no model that brings its own: it is served on a base."""
    return all(kind.name == "lora-adapter" for kind in kinds)


def recognise(tree: Tree) -> tuple[Kind, ...]:
    """`kinds_of` with the tree's own config.json; one that can't be read makes a kind unknown."""
    try:
        return kinds_of(tree, load_config(tree))
    except InputError:
        return kinds_of(tree, None)


def kinds_of(tree: Tree, config: ModelConfig | None) -> tuple[Kind, ...]:
    """All kinds of one repository, at least one; the model that config.json describes comes first.

    `config` is None when there is no config.json or it can't be read. Reads a few small files of the tree; what is
    hostile in them makes a kind unknown, never an error.
    """
    found = [*_model(tree, config), *_adapters(tree), *_gguf(tree)]
    if found:
        return tuple(found)
    if CONFIG_NAME in tree.by_path:
        return (Kind(name="unknown", because=f"{CONFIG_NAME} can't be read"),)
    return (Kind(name="unknown", because=f"no {CONFIG_NAME}, no {ADAPTER_CONFIG} and no GGUF file"),)


def _model(tree: Tree, config: ModelConfig | None) -> Iterator[Kind]:
    modules = _sentence_modules(tree)
    if modules is not None:
        yield modules
    elif config is not None:
        yield _of_config(config)


def _sentence_modules(tree: Tree) -> Kind | None:
    """A repository of sentence-transformers: modules.json lists what text passes through, and the last part pools."""
    if MODULES not in tree.by_path:
        return None
    try:
        steps = read_value(tree.location(MODULES), origin=MODULES, max_bytes=_MAX_BYTES)
    except InputError:
        return None
    if not isinstance(steps, list):
        return None
    types = [str(step.get("type")) for step in steps if isinstance(step, Mapping)]
    named = [word.rpartition(".")[2] for word in types if word.startswith("sentence_transformers.")]
    if not named:
        return None
    return Kind(name="embedding", because=f"{MODULES}: sentence-transformers with {_words(named)}")


def _of_config(config: ModelConfig) -> Kind:
    if not config.architectures:
        return Kind(name="unknown", because=f"{CONFIG_NAME} names no architecture")
    name = config.architectures[0]
    because = f"{CONFIG_NAME}: architecture {_word(name)}"
    encoder_decoder = bool(_ENCODER_DECODER.search(name)) and not name.startswith("ChatGLM")
    image = _image_evidence(config.raw, _IMAGE_TOKENS if encoder_decoder else ())
    if _DRAFTS.search(name):
        return Kind(name="unknown", because=f"{because} drafts for another model and serves nobody alone")
    if _GENERATES.search(name):
        experts = _experts(config)
        mixed = f", {experts[1]} experts ({experts[0]})" if experts else ""
        if image is not None:
            return Kind(name="vision-language", because=f"{because} with {image}{mixed}")
        if encoder_decoder:
            return Kind(name="unknown", because=f"{because} without images: an encoder and a decoder")
        if experts:
            return Kind(name="mixture-of-experts", because=because + mixed)
        return Kind(name="causal-lm", because=because)
    if _HEADLESS.search(name):
        return Kind(name="embedding", because=f"{because} has no language-model head")
    return Kind(name="unknown", because=f"{because} is not one of the kinds that this version knows")


def _image_evidence(raw: Mapping[str, Json], tokens: tuple[str, ...]) -> str | None:
    parts = [raw, *(part for key in _NESTED if isinstance(part := raw.get(key), Mapping))]
    for part in parts:
        for key in _VISION_SECTIONS:
            if isinstance(section := part.get(key), Mapping) and section:
                return key
        for key in (*_TOWER_KEYS, *tokens):
            if part.get(key) not in (None, False, "", [], {}):
                return key
    return None


def _experts(config: ModelConfig) -> tuple[str, int] | None:
    """The key that counts experts and the count, when it is over 1; per-layer lists give their largest."""
    parts = [config.text, config.raw]
    parts += [part for key in ("ffn_config", "thinker_config") if isinstance(part := config.raw.get(key), Mapping)]
    if isinstance(blocks := config.text.get("block_configs"), list):
        parts += [block for block in blocks if isinstance(block, Mapping)]
    for part in parts:
        for key in _EXPERTS:
            value = part.get(key)
            counts = [item for item in (value if isinstance(value, list) else [value]) if type(item) is int]
            if counts and max(counts) > 1:
                return key, max(counts)
    return None


def _adapters(tree: Tree) -> Iterator[Kind]:
    """Every adapter of the tree; some models carry their own in folders."""
    entries = list(tree.named(ADAPTER_CONFIG))
    if len(entries) > MAX_ADAPTERS:
        yield Kind(name="unknown", because=f"{len(entries)} files {ADAPTER_CONFIG}; the first {MAX_ADAPTERS} are read")
    for entry in entries[:MAX_ADAPTERS]:
        try:
            config = read_object(tree.location(entry.path), origin=entry.path, max_bytes=_MAX_BYTES)
        except InputError as error:
            yield Kind(name="unknown", because=error.message)
            continue
        method = config.get("peft_type")
        if method != "LORA":
            yield Kind(name="unknown", because=f"{entry.path}: an adapter of type {method!a:.40}, known is 'LORA'")
            continue
        base = config.get("base_model_name_or_path")
        folder = entry.path.removesuffix(ADAPTER_CONFIG)
        weights = [name for name in ADAPTER_WEIGHTS if folder + name in tree.by_path]
        parts = [
            f"over {_word(base)}" if isinstance(base, str) and base else "that names no base",
            f"with {weights[0]}" if weights else f"without {ADAPTER_WEIGHTS[0]}",
        ]
        yield Kind(
            name="lora-adapter",
            because=f"{entry.path}: LoRA {' '.join(parts)}",
            base=base if isinstance(base, str) and base else None,
        )


def _gguf(tree: Tree) -> Iterator[Kind]:
    names = [
        entry.path for entry in tree.files if entry.path.lower().endswith(".gguf") and _has_magic(tree, entry.path)
    ]
    if names:
        yield Kind(name="gguf", because=f"GGUF by name and content: {_words(names)}")


def _has_magic(tree: Tree, path: str) -> bool:
    try:
        with tree.location(path).open("rb") as stream:
            return stream.read(len(GGUF_MAGIC)) == GGUF_MAGIC
    except OSError:
        return False


def _words(names: list[str]) -> str:
    shown = ", ".join(map(_word, names[:3]))
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def _word(text: str) -> str:
    """A stranger's word, short and free of control characters."""
    return ascii(text[:80])[1:-1]
