"""A head that is stored although config.json ties it to the embedding: it has to be the embedding, byte for byte.

Programs differ in which of the two they use: transformers 5 and late releases of vLLM compare them and do not tie what
differs, earlier ones of both follow the config and drop the head. So the model that one of them judges is not the one
that another serves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from modelctl.model.architecture import loaded_files
from modelctl.model.config import ModelConfig
from modelctl.model.family import Family
from modelctl.model.safetensors import DTYPE_BITS, Header, TensorInfo
from modelctl.model.weights import OTHER_TOWER, WeightProblem

BLOCK_BYTES = 1 << 20
_HEAD = re.compile(r"(^|\.)(lm_head|lm_head\.decoder|cls\.predictions\.decoder|embed_out)\.weight$")
_EMBEDDING = re.compile(r"(^|\.)(embed_tokens|wte|word_embeddings|tok_embeddings|embed_in)\.weight$")


@dataclass(frozen=True, kw_only=True)
class _Stored:
    path: str
    header: Header
    tensor: TensorInfo


def check_tied_head(
    config: ModelConfig, family: Family | None, headers: Mapping[str, Header], location: Callable[[str], Path]
) -> Iterator[WeightProblem]:
    """At most one problem. `headers` are those of files without problems, `location` says where a file lies.

    Nothing is compared when the config does not tie, or when there is not one head and one embedding. Raises `OSError`
    when a file can't be read or has become shorter.
    """
    tied = config.tie_word_embeddings
    if not (family is not None and family.tied if tied is None else tied):
        return
    head, embedding = _only(_HEAD, headers), _only(_EMBEDDING, headers)
    if head is None or embedding is None:
        return
    one, two = head.tensor, embedding.tensor
    named = f"config.json ties {one.name!a:.120} to {two.name!a:.120}, and it is stored with"
    if (one.dtype, one.shape) != (two.dtype, two.shape):
        detail = f"{named} {one.dtype} {list(one.shape)}, the embedding with {two.dtype} {list(two.shape)}"
        yield WeightProblem(path=head.path, kind="tied-head", detail=detail)
        return
    differing = _differing(location(head.path), head, location(embedding.path), embedding)
    if differing:
        detail = f"{named} other numbers: {differing} of {one.elements} differ"
        yield WeightProblem(path=head.path, kind="tied-head", detail=detail)


def _only(pattern: re.Pattern[str], headers: Mapping[str, Header]) -> _Stored | None:
    found = [
        _Stored(path=path, header=headers[path], tensor=tensor)
        for path in loaded_files(headers)
        for tensor in headers[path].tensors
        if pattern.search(tensor.name) and not OTHER_TOWER.search(tensor.name)
    ]
    return found[0] if len(found) == 1 else None


def _differing(head_path: Path, head: _Stored, embedding_path: Path, embedding: _Stored) -> int:
    """How many elements have other bits."""
    import numpy as np

    left, differing = head.tensor.size_bytes, 0
    unit = f"u{max(DTYPE_BITS[head.tensor.dtype] // 8, 1)}"
    with head_path.open("rb", buffering=0) as one, embedding_path.open("rb", buffering=0) as two:
        one.seek(head.header.data_start + head.tensor.begin)
        two.seek(embedding.header.data_start + embedding.tensor.begin)
        while left:
            size = min(BLOCK_BYTES, left)
            ours, theirs = _read(one.read, size, head_path), _read(two.read, size, embedding_path)
            if ours != theirs:
                differing += int(np.count_nonzero(np.frombuffer(ours, unit) != np.frombuffer(theirs, unit)))
            left -= size
    return differing


def _read(read: Callable[[int], bytes | None], size: int, path: Path) -> bytes:
    parts = b""
    while len(parts) < size:
        part = read(size - len(parts))
        if not part:
            raise OSError(f"{path}: the file has become shorter while it was read")
        parts += part
    return parts
