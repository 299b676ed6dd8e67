"""Stored tensors against config.json: the dtype it declares, the rows of the embedding, the layers it counts.

Only what makes an engine load something else than the config says is a problem; small vectors that training keeps in
float32 (router biases, norms, state matrices) are not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from modelctl.model.config import ModelConfig
from modelctl.model.safetensors import Header, TensorInfo

FLOATS = ("F16", "BF16", "F32", "F64")
STORED_AS: Mapping[str, str] = {
    "float16": "F16",
    "half": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float": "F32",
    "float64": "F64",
    "double": "F64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
}
"""config.json's names of dtypes → those of safetensors."""
TOLERATED_SHARE = 0.01
"""Share of the bytes of all float matrices that may have another dtype than declared (routers, state matrices)."""

QUANTIZATION_PART = re.compile(r"scale|zero|qweight|g_idx|packed|absmax|quant|weight_shape", re.IGNORECASE)
_EMBEDDING = re.compile(
    r"(^|\.)(embed_tokens|wte|word_embeddings|tok_embeddings|embed_in|embed_out|lm_head)\.weight$", re.IGNORECASE
)
OTHER_TOWER = re.compile(r"vision|visual|audio|image|encoder", re.IGNORECASE)
_LAYER = re.compile(r"(^|\.)(layers|h|blocks|encoder\.layer)\.(\d{1,5})\.")


@dataclass(frozen=True, kw_only=True)
class WeightProblem:
    """One way in which weights and config.json disagree."""

    path: str | None
    kind: str
    """One of: dtype, undeclared-quantization, embedding-rows, layers."""
    detail: str


def check_weights(config: ModelConfig, headers: Mapping[str, Header]) -> Iterator[WeightProblem]:
    """Every disagreement between the config and the tensors of the headers, by file."""
    tensors = [(path, tensor) for path, header in headers.items() for tensor in header.tensors]
    yield from _dtypes(config, tensors)
    yield from _embedding_rows(config, tensors)
    yield from _layers(config, tensors)


def check_dtypes(headers: Mapping[str, Header], allowed: tuple[str, ...]) -> Iterator[WeightProblem]:
    """Per file the types of matrices that a policy does not allow; an empty list allows all."""
    for path, header in headers.items() if allowed else ():
        counts = Counter(tensor.dtype for tensor in header.tensors if len(tensor.shape) > 1)
        for dtype in sorted(counts.keys() - set(allowed)):
            detail = f"{counts[dtype]} matrices are {dtype}, the policy's integrity.dtypes are {', '.join(allowed)}"
            yield WeightProblem(path=path, kind="dtype", detail=detail)


def dtype_shares(headers: Mapping[str, Header]) -> dict[str, int]:
    """Stored bytes by dtype, the largest first."""
    counts: Counter[str] = Counter()
    for header in headers.values():
        for tensor in header.tensors:
            counts[tensor.dtype] += tensor.size_bytes
    return dict(counts.most_common())


def _dtypes(config: ModelConfig, tensors: Sequence[tuple[str, TensorInfo]]) -> Iterator[WeightProblem]:
    matrices = [(path, tensor) for path, tensor in tensors if len(tensor.shape) > 1]
    if config.quantization is None:
        for path, tensor in matrices:
            packed = tensor.dtype in ("I32", "U32", "U8", "I8", "F4") or tensor.dtype.startswith(("F8", "F6"))
            if packed and tensor.name.rpartition(".")[2] in ("weight", "qweight", "weight_packed"):
                detail = f"{tensor.name[:120]!a} holds {tensor.dtype}, and config.json has no quantization_config"
                yield WeightProblem(path=path, kind="undeclared-quantization", detail=detail)
                return
    if config.dtype is None:
        return
    wanted = STORED_AS.get(config.dtype)
    if wanted is None:
        known = ", ".join(STORED_AS)
        detail = f"config.json: dtype '{config.dtype[:40]}' is none of {known}"
        yield WeightProblem(path="config.json", kind="dtype", detail=detail)
        return
    floats = [
        (path, tensor)
        for path, tensor in matrices
        if tensor.dtype in FLOATS and not (config.quantization and QUANTIZATION_PART.search(tensor.name))
    ]
    others = [(path, tensor) for path, tensor in floats if tensor.dtype != wanted]
    total = sum(tensor.size_bytes for _, tensor in floats)
    share = sum(tensor.size_bytes for _, tensor in others) / total if total else 0.0
    if share > TOLERATED_SHARE:
        path, tensor = others[0]
        detail = (
            f"config.json declares {config.dtype} ({wanted}), and {share:.0%} of the float matrices' bytes are stored "
            f"otherwise: {len(others)} tensors, the first is {tensor.name[:120]!a} with {tensor.dtype}"
        )
        yield WeightProblem(path=path, kind="dtype", detail=detail)


def _embedding_rows(config: ModelConfig, tensors: Sequence[tuple[str, TensorInfo]]) -> Iterator[WeightProblem]:
    if config.vocab_size is None:
        return
    for path, tensor in tensors:
        matrix = len(tensor.shape) == 2 and _EMBEDDING.search(tensor.name) and not OTHER_TOWER.search(tensor.name)
        if matrix and tensor.shape[0] != config.vocab_size:
            detail = f"{tensor.name} has {tensor.shape[0]} rows, config.json says vocab_size {config.vocab_size}"
            yield WeightProblem(path=path, kind="embedding-rows", detail=detail)


def _layers(config: ModelConfig, tensors: Sequence[tuple[str, TensorInfo]]) -> Iterator[WeightProblem]:
    present = {int(found[3]) for _, tensor in tensors if (found := _LAYER.search(tensor.name))}
    if not present or config.num_layers is None:
        return
    count = config.num_layers
    missing = count - sum(number < count for number in present)
    if missing > 0:
        first = next(number for number in range(count) if number not in present)
        detail = f"config.json counts {count} layers, {missing} have no tensor (the first is layer {first})"
        yield WeightProblem(path=None, kind="layers", detail=detail)
