"""What the numbers of a tensor must not be: NaN, Inf, all zero, constant.

NaN is wrong in every float; Inf too, except in stored attention masks. Zeros and constants are wrong where training
never leaves them: matrices named `weight`, scales (zeros only), packed words, and norm weights that multiply (families
whose norms multiply by one plus the weight may have zeros). They are right in biases, norms of ones, `g_idx`,
`qzeros` (constant for symmetric quantisation), position and token-type tables, and the B half of a LoRA pair, which
starts at zero: there only zeros in all of an adapter's pairs are wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from modelctl.model.gguf import GgufHeader
from modelctl.model.number_bits import is_float
from modelctl.model.numbers import TensorNumbers
from modelctl.model.safetensors import Header, TensorInfo
from modelctl.model.weights import WeightProblem

_MASK = re.compile(r"mask|attn\.bias$", re.IGNORECASE)
_TABLE = re.compile(r"position|token_type|pos_emb", re.IGNORECASE)
_NORM = re.compile(r"(norm|ln_\w+)\.(weight|gamma)$", re.IGNORECASE)
_LORA_B = re.compile(r"\.lora_(B|embedding_A)(\.|$)")
_LORA_A = re.compile(r"\.lora_(A|embedding_B)(\.|$)")


def check_numbers(
    path: str, numbers: Iterable[TensorNumbers], *, norms_multiply: bool = False, may_be_constant: tuple[str, ...] = ()
) -> Iterator[WeightProblem]:
    """Every tensor of one file whose numbers can't be right.

    `norms_multiply`: the architecture is known to multiply by its norms' weights. `may_be_constant` are shell patterns
    for names of tensors that may be all zero or constant.
    """
    halves = zeros = 0
    for found in numbers:
        name = ascii(found.tensor.name[:120])
        yield from _special(path, name, found)
        if _LORA_B.search(found.tensor.name):
            halves += 1
            zeros += found.zero
        if any(fnmatchcase(found.tensor.name, pattern) for pattern in may_be_constant):
            continue
        if found.zero and _never_zero(found, norms_multiply=norms_multiply):
            detail = f"{name} {list(found.tensor.shape)}: all {found.elements} {_counted(found)} are zero"
            yield WeightProblem(path=path, kind="all-zero", detail=detail)
        elif found.constant and not found.zero and _never_constant(found):
            same = "all blocks" if found.in_blocks else f"all {found.elements} elements"
            detail = f"{name} {list(found.tensor.shape)}: {same} are the same"
            yield WeightProblem(path=path, kind="constant", detail=detail)
    if halves and halves == zeros:
        detail = f"the second half of all {halves} LoRA pairs is zero: the adapter changes nothing"
        yield WeightProblem(path=path, kind="all-zero", detail=detail)


def weights_of(found: GgufHeader) -> Header:
    """The tensors of a GGUF file without problems, as a header for `read_numbers`."""
    tensors = tuple(
        TensorInfo(name=tensor.name, dtype=tensor.type, shape=tensor.shape, begin=tensor.begin, end=tensor.end)
        for tensor in found.tensors
    )
    return Header(tensors=tensors, metadata={}, data_start=found.data_start, problems=())


def _counted(found: TensorNumbers) -> str:
    return "block scales" if found.in_blocks else "elements"


def _special(path: str, name: str, found: TensorNumbers) -> Iterator[WeightProblem]:
    if found.nans:
        detail = f"{name}: {found.nans} of {found.elements} {_counted(found)} are NaN"
        yield WeightProblem(path=path, kind="nan", detail=detail)
    if found.infinities and not _MASK.search(found.tensor.name):
        detail = f"{name}: {found.infinities} of {found.elements} {_counted(found)} are infinite"
        yield WeightProblem(path=path, kind="inf", detail=detail)


def _never_constant(found: TensorNumbers) -> bool:
    """Whether it is a matrix (two dimensions over 1, so that one element can't make it constant) of trained weights."""
    tensor = found.tensor
    if sum(size > 1 for size in tensor.shape) < 2 or found.nans or _TABLE.search(tensor.name):
        return False
    part = tensor.name.rpartition(".")[2]
    if part in ("qweight", "weight_packed"):
        return True
    return is_float(tensor.dtype) and (part == "weight" or bool(_LORA_A.search(tensor.name)))


def _never_zero(found: TensorNumbers, *, norms_multiply: bool) -> bool:
    tensor = found.tensor
    if _never_constant(found):
        return not _LORA_B.search(tensor.name)
    part = tensor.name.rpartition(".")[2]
    if part in ("scales", "weight_scale", "weight_scale_inv"):
        return is_float(tensor.dtype)
    return norms_multiply and len(tensor.shape) == 1 and bool(_NORM.search(tensor.name))
