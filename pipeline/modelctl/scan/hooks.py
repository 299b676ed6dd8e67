"""Keys of configurations that make a program import or fetch code: what transformers, diffusers, sentence-transformers,
peft, kernels, compressed-tensors, hydra, MLflow and Keras do with names that they read from a file.

Every object is looked at, at any depth and in a file of any name: a nested `auto_map` has run code without leave
(CVE-2025-66448), and loaders read more files than config.json.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Literal

from modelctl.scan.configs import Pairs, pairs, short

Rule = Literal["auto-map", "custom-pipeline", "trust-remote-code", "hub-kernel"]

_LIBRARIES = ("diffusers", "transformers", "sentence_transformers", "torch", "onnxruntime", "optimum", "peft")
_PIPELINE_PARTS = frozenset(
    {
        "alt_diffusion", "audioldm2", "blip_diffusion", "deepfloyd_if", "flux", "hunyuan_video", "kandinsky",
        "kandinsky2_2", "kolors", "latent_diffusion", "ltx", "musicldm", "paint_by_example", "pixart_alpha", "shap_e",
        "stable_audio", "stable_cascade", "stable_diffusion", "stable_diffusion_safe", "stable_diffusion_xl", "unclip",
        "unidiffuser", "versatile_diffusion", "wuerstchen",
    }
)  # fmt: skip
"""Folders of diffusers' own pipelines that a model_index.json may name as the library of a part."""
_OTHER_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+--[\w.]+")
_KERNEL = re.compile(r"(?:[^|]*\|)?\s*[^/:|\s]+/[^/:|\s]+(?:@[^/:]+)?(?::[^/:]+)?\s*")
"""How transformers knows a kernel of the Hub: `org/name`, `org/name@revision:function`, `paged|org/name`."""
_ATTENTION = re.compile(r"_?(attn|experts)_implementation(_internal)?")
_PYTHON_FILE = re.compile(r"[\w./\\~-]+\.pyw?:\w+")
"""`module.py:Class`: compressed-tensors imports the file when the name of a format is spelt so."""
_KERAS = ("keras", "tensorflow", "tf_keras", "builtins", "keras_hub", "keras_nlp", "keras_cv")
_IMPORTED: dict[str, tuple[str, ...]] = {
    "parent_library": _LIBRARIES,
    "megatron_core": ("megatron",),
    "module": _KERAS,
    "activation_function": ("torch.nn",),
    "activation_fn": ("torch.nn",),
    "sbert_ce_default_activation_function": ("torch.nn",),
}
"""Keys whose dotted names a library imports (peft, Keras, sentence-transformers), and what they may lie in."""
_ALWAYS = ("parent_library", "megatron_core")
"""Keys that are imported without a dot in them too."""
_OFF = (None, False, 0, "")
_MAX_NAME_CHARACTERS = 400


@dataclass(frozen=True, kw_only=True)
class Hook:
    """A key that makes a loader import code. `own`: the code is a file of this repository, which is examined."""

    rule: Rule
    detail: str
    own: bool = False


def hooks(document: object, *, path: str, files: Set[str] = frozenset()) -> Iterator[Hook]:
    """Every hook in a parsed document. `path` is the file's, `files` are the paths of all files of the repository."""
    folder, _, name = path.rpartition("/")
    here = _Here(folder=folder, files=files)
    told: list[str] = []
    for key, value in pairs(document):
        for hook in _of_pair(key, value, here):
            if not (isinstance(value, str) and any(short(value) in detail for detail in told)):
                told.append(hook.detail)  # what a key such as auto_map holds was told with it
                yield hook
    match name:
        case "modules.json" | "router_config.json":
            yield from _of_modules(document, name)
        case "model_index.json" | "modular_model_index.json" if isinstance(document, Pairs):
            yield from _of_pipeline(document, name, here)
        case "kernels.lock":
            yield Hook(rule="hub-kernel", detail="kernels.lock: machine code of the Hub to be fetched and loaded")
        case _:
            pass


@dataclass(frozen=True, kw_only=True)
class _Here:
    """Where a document lies, to tell whether what it names is here."""

    folder: str
    files: Set[str]

    def where(self, target: object) -> tuple[str, bool]:
        """(words, whether it is a file of this repository) for a class reference such as `module.Class`."""
        text = str(target)
        if "--" in text:
            return f"from another repository ({short(text.partition('--')[0])})", False
        module = text.rpartition(".")[0]
        if re.fullmatch(r"\w+(/\w+)*(\.\w+)*", module):
            name = module.replace(".", "/") + ".py"
            if name in self.files or f"{self.folder}/{name}".lstrip("/") in self.files:
                return "from this repository", True
            return f"from this repository, which has no {short(name)}", False
        return "from somewhere else", False


def _of_pair(key: str, value: object, here: _Here) -> Iterator[Hook]:
    match key:
        case "auto_map":
            yield from _classes("auto-map", key, value, here)
        case "custom_pipelines" if isinstance(value, Pairs):
            targets = [target for task in value for name, target in pairs(task[1]) if name == "impl"]
            yield from _classes("custom-pipeline", key, targets or value, here)
        case "trust_remote_code" if value not in _OFF:
            yield Hook(rule="trust-remote-code", detail=f"trust_remote_code: {short(value)}")
        case "use_kernels" if value not in _OFF:
            yield Hook(rule="hub-kernel", detail="use_kernels: layers are replaced by machine code of the Hub")
        case "custom_pipeline" | "custom_pipelines" | "custom_generate" | "_target_" | "loader_module":
            if value not in _OFF and not str(value).startswith("mlflow."):
                yield Hook(rule="custom-pipeline", detail=f"{key}: {short(value)} is imported when the model is loaded")
        case _ if _ATTENTION.fullmatch(key):
            yield from _of_attention(key, value)
        case _ if isinstance(value, str) and len(value) < _MAX_NAME_CHARACTERS:
            yield from _of_text(key, value)


def _classes(rule: Rule, key: str, value: object, here: _Here) -> Iterator[Hook]:
    """Class references in any nesting, each with the place that it leads to."""
    named = list(value) if isinstance(value, Pairs) else [(key, value)]
    for name, target in named:
        for one in _leaves(target):
            where, own = here.where(one)
            yield Hook(rule=rule, detail=f"{key}: {short(name)} loads {short(one)} {where}", own=own)


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, Pairs):
        for _, part in value:
            yield from _leaves(part)
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(part)
    elif value is not None:
        yield value


def _of_attention(key: str, value: object) -> Iterator[Hook]:
    for one in _leaves(value):
        if isinstance(one, str) and _KERNEL.fullmatch(one):
            yield Hook(rule="hub-kernel", detail=f"{key}: {short(one)} is machine code fetched from the Hub")


def _of_text(key: str, value: str) -> Iterator[Hook]:
    owner = _IMPORTED.get(key)
    if owner is not None and not _within(value, owner) and (key in _ALWAYS or "." in value):
        yield Hook(rule="custom-pipeline", detail=f"{key}: {short(value)} is imported when the model is loaded")
    elif _OTHER_REPOSITORY.fullmatch(value):
        words = f"{short(key)}: loads {short(value)} from another repository ({short(value.partition('--')[0])})"
        yield Hook(rule="auto-map", detail=words)
    elif _PYTHON_FILE.fullmatch(value):
        yield Hook(rule="custom-pipeline", detail=f"{short(key)}: {short(value)} names a Python file and what is in it")


def _of_modules(document: object, name: str) -> Iterator[Hook]:
    """sentence-transformers: each step, or each side of a router, is imported by its name."""
    for key, value in pairs(document):
        kinds = [value] if key == "type" else list(_leaves(value)) if key == "types" else []
        for kind in kinds:
            if not _within(str(kind), ("sentence_transformers",)):
                yield Hook(rule="custom-pipeline", detail=f"{name} loads {short(kind)}")


def _of_pipeline(document: Pairs, name: str, here: _Here) -> Iterator[Hook]:
    """A diffusers pipeline names its parts as [library, class]; any other module is the repository's own."""
    for key, value in document:
        if not isinstance(value, list) or isinstance(value, Pairs):
            continue
        library = str(value[0]) if value else ""
        shaped = len(value) in (2, 3) and (
            value[0] is None or _within(library, _LIBRARIES) or library in _PIPELINE_PARTS
        )
        shadowed = any(path.endswith((f"{key}/{library}.py", f"/{library}.py")) for path in here.files)
        if key == "_class_name" or not shaped or shadowed:
            yield Hook(rule="custom-pipeline", detail=f"{name}: {short(key)} is {short(value)}")


def _within(dotted: str, libraries: tuple[str, ...]) -> bool:
    """Whether a dotted name lies in one of the libraries: `torch.nn` in torch, `torch_evil` not."""
    return any(dotted == library or dotted.startswith(f"{library}.") for library in libraries)
