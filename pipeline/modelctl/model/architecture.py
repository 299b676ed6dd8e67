"""Tensor names and shapes against the architecture that config.json names: nothing missing, nothing extra, all shapes.

For the families of `families`; another architecture is a warning, never a silent pass of this part. Work follows the
tensors that are there: a config that counts a million experts ends at the first that are missing. Rows of embeddings,
missing layers and dtypes are the rules of `weights`, for every architecture.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from modelctl.model.config import ModelConfig
from modelctl.model.families import Head, family_of
from modelctl.model.family import Facts, Family, NotStatedError, Parameter
from modelctl.model.packing import Packing, packing_of
from modelctl.model.safetensors import Header, TensorInfo
from modelctl.model.weights import FLOATS, QUANTIZATION_PART, WeightProblem

MAX_PROBLEMS = 200
"""Disagreements after which the comparison ends: files of another model disagree in everything."""

_OLD_NAMES = (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias"))
_BUFFERS = re.compile(r"(^|\.)(rotary_emb\.inv_freq|position_ids)$")
"""What older writers stored and no loader needs."""
_PACKED_PARTS = ("qweight", "scales", "qzeros", "g_idx")


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What came of comparing."""

    problems: tuple[WeightProblem, ...] = ()
    warnings: tuple[str, ...] = ()
    family: Family | None = None
    """None when the architecture is not known and nothing was compared."""
    parameters: int | None = None
    """Weights of the model, packed ones counted unpacked; None when they could not be told."""


def compare_architecture(config: ModelConfig, headers: Mapping[str, Header]) -> Comparison:
    """Hold the files that a loader takes against config.json.

    Raises `InputError` for a value in config.json that is no number where one is needed.
    """
    tensors = {
        _current_name(tensor.name): (path, tensor) for path in loaded_files(headers) for tensor in headers[path].tensors
    }
    known = family_of(config)
    if known is None:
        name = ascii(config.architectures[0][:80])[1:-1] if config.architectures else "(none)"
        why = "its code is its own" if config.auto_map else "not known"
        return Comparison(warnings=(f"architecture {name} is {why}: names and shapes were not compared",))
    if not tensors:
        return Comparison()
    family, head = known
    try:
        work = _Work(config=config, family=family, head=head, tensors=tensors, facts=Facts(config))
        problems = tuple(islice(work.problems(), MAX_PROBLEMS))
    except NotStatedError as error:
        return Comparison(warnings=(f"{error.message}: names and shapes were not compared",))
    return Comparison(
        problems=problems,
        warnings=tuple(work.warnings),
        family=family,
        parameters=None if problems or work.warnings else work.parameters,
    )


def loaded_files(headers: Mapping[str, Header]) -> Iterator[str]:
    """The files at the root that engines load: adapters are their own, `consolidated` is a second copy by Mistral."""
    root = [path for path in headers if "/" not in path and path != "adapter_model.safetensors"]
    others = [path for path in root if not path.startswith("consolidated")]
    yield from others or root


def _current_name(name: str) -> str:
    for old, new in _OLD_NAMES:
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


@dataclass(kw_only=True)
class _Work:
    """One comparison under way: what has been asked for so far is `seen`."""

    config: ModelConfig
    family: Family
    head: Head
    tensors: Mapping[str, tuple[str, TensorInfo]]
    facts: Facts
    seen: set[str] = field(default_factory=set)
    modules: set[str] = field(default_factory=set)
    """Layers whose weight may be packed: `model.layers.0.mlp.up_proj`."""
    warnings: set[str] = field(default_factory=set)
    parameters: int = 0

    def problems(self) -> Iterator[WeightProblem]:
        """Every disagreement. Raises `NotStatedError`, `InputError`."""
        packing = packing_of(self.config.quantization)
        base = self.family.base if any(name.startswith(self.family.base) for name in self.tensors) else ""
        layer = re.compile(re.escape(base + self.family.layer) + r"(0|[1-9]\d{0,6})\.")
        layers = {int(found[1]) for name in self.tensors if (found := layer.match(name))}
        for parameter in self.family.outer(self.facts):
            yield from self._one(base, parameter, packing)
        for number in sorted(layers):
            if number < self.facts.layers:
                for parameter in self.family.block(self.facts, number):
                    yield from self._one(f"{base}{self.family.layer}{number}.", parameter, packing)
        if self.head == "causal" or not base:
            yield from self._one("", self._lm_head(base), packing)
        yield from self._extra(base, layer)

    def _lm_head(self, base: str) -> Parameter:
        tied = self.config.tie_word_embeddings
        optional = (self.family.tied if tied is None else tied) or not base
        return Parameter(name="lm_head.weight", shape=(None, self.facts.hidden), linear=True, optional=optional)

    def _one(self, prefix: str, parameter: Parameter, packing: Packing | None) -> Iterator[WeightProblem]:
        name = prefix + parameter.name
        self.seen.add(name)
        if parameter.linear:
            self.modules.add(name.removesuffix(".weight"))
        found = self.tensors.get(name)
        if found is not None:
            yield from self._plain(found, parameter)
        elif parameter.linear and self._is_packed(name.removesuffix(".weight")):
            yield from self._packed(name.removesuffix(".weight"), parameter, packing)
        elif not parameter.optional:
            detail = f"{name} is in no file; {self._named()} has it, of shape {_shape(parameter)}"
            yield WeightProblem(path=None, kind="tensor-missing", detail=detail)

    def _plain(self, found: tuple[str, TensorInfo], parameter: Parameter) -> Iterator[WeightProblem]:
        path, tensor = found
        if self.config.quantization and parameter.linear and not _keeps_shape(tensor.dtype):
            self._unknown_packing()
            return
        if parameter.shape is not None:
            self.parameters += tensor.elements
            yield from self._compare(path, tensor, parameter.shape)

    def _is_packed(self, module: str) -> bool:
        return any(f"{module}.{part}" in self.tensors for part in ("qweight", "weight_packed"))

    def _packed(self, module: str, parameter: Parameter, packing: Packing | None) -> Iterator[WeightProblem]:
        parts = {part: self.tensors[f"{module}.{part}"] for part in _PACKED_PARTS if f"{module}.{part}" in self.tensors}
        outputs, inputs = parameter.shape or (None, None)
        self.seen |= {f"{module}.{part}" for part in (*_PACKED_PARTS, "bias")}
        if packing is None or inputs is None or "qweight" not in parts:
            self._unknown_packing()
            return
        if outputs is None:
            outputs = self.config.vocab_size or 0
        self.parameters += outputs * inputs
        wanted = list(packing.parts(outputs, inputs))
        for part in wanted[0].keys() - parts.keys():
            detail = f"{module}.{part} is in no file, and {module}.qweight is packed with it"
            yield WeightProblem(path=None, kind="tensor-missing", detail=detail)
        if "g_idx" in parts:
            yield from self._compare(*parts["g_idx"], (inputs,))
        bias = self.tensors.get(f"{module}.bias")
        if bias is not None:
            yield from self._compare(*bias, (outputs,))
        if not any(all(parts[p][1].shape == shape for p, shape in shapes.items() if p in parts) for shapes in wanted):
            for part, shape in wanted[0].items():
                if part in parts:
                    yield from self._compare(*parts[part], shape)

    def _compare(self, path: str, tensor: TensorInfo, wanted: tuple[int | None, ...]) -> Iterator[WeightProblem]:
        alike = len(tensor.shape) == len(wanted) and all(
            want is None or got == want for got, want in zip(tensor.shape, wanted, strict=True)
        )
        if not alike:
            detail = (
                f"{tensor.name[:120]!a} is {_list(tensor.shape)}, by config.json {self._named()} has {_list(wanted)}"
            )
            yield WeightProblem(path=path, kind="tensor-shape", detail=detail)

    def _extra(self, base: str, layer: re.Pattern[str]) -> Iterator[WeightProblem]:
        told: set[int] = set()
        for name, (path, tensor) in self.tensors.items():
            if name in self.seen or not tensor.elements or _BUFFERS.search(name) or self._is_companion(name):
                continue
            found = layer.match(name)
            number = int(found[1]) if found else -1
            if number >= self.facts.layers:
                if number not in told:
                    told.add(number)
                    detail = f"layer {number} has tensors, config.json counts {self.facts.layers} layers from 0"
                    yield WeightProblem(path=path, kind="tensor-extra", detail=detail)
            elif self.head != "other" or (base and name.startswith(base)):
                detail = f"{name[:120]!a} {_list(tensor.shape)} is no tensor of {self._named()}"
                yield WeightProblem(path=path, kind="tensor-extra", detail=detail)
            else:
                self.parameters += tensor.elements

    def _is_companion(self, name: str) -> bool:
        """Whether a quantiser stores it beside a weight or an attention: scales, zeros, packing."""
        module, _, part = name.rpartition(".")
        if not self.config.quantization or not QUANTIZATION_PART.search(part):
            return False
        return any(place in self.modules for place in (module, module.removesuffix(".weight"))) or module.endswith(
            "attn"
        )

    def _unknown_packing(self) -> None:
        method = str((self.config.quantization or {}).get("quant_method"))[:40]
        self.warnings.add(f"packing {method!a} is not known: the shapes of packed tensors were not compared")

    def _named(self) -> str:
        return ascii(self.config.architectures[0][:80])[1:-1]


def _keeps_shape(dtype: str) -> bool:
    return dtype in FLOATS or dtype.startswith("F8") or dtype == "I8"


def _shape(parameter: Parameter) -> str:
    return _list(parameter.shape or ())


def _list(shape: tuple[int | None, ...]) -> str:
    return "[" + ", ".join("rows" if size is None else str(size) for size in shape)[:80] + "]"
