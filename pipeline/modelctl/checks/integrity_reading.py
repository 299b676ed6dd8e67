"""What integrity finds the files of one tree to be, and the figures that it reports of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from modelctl.checks.base import Measurement
from modelctl.model import gguf
from modelctl.model.architecture import Comparison
from modelctl.model.config import ModelConfig
from modelctl.model.content import ContentKind, identify
from modelctl.model.files import IGNORED, WeightFormat
from modelctl.model.kinds import Kind
from modelctl.model.listing import Upstream
from modelctl.model.safetensors import Header, read_header
from modelctl.model.tree import Tree
from modelctl.model.weights import dtype_shares
from modelctl.progress import Progress


@dataclass(kw_only=True)
class Seen:
    """What is known of one tree so far; filled in as the check goes on."""

    contents: dict[str, ContentKind] = field(default_factory=dict)
    headers: dict[str, Header] = field(default_factory=dict)
    """Of safetensors files."""
    ggufs: dict[str, gguf.GgufHeader] = field(default_factory=dict)
    config: ModelConfig | None = None
    kinds: tuple[Kind, ...] = ()
    comparison: Comparison = field(default_factory=Comparison)
    numbers_read: int = 0
    """Tensors whose elements were all read."""


def read_files(tree: Tree, *, formats: tuple[WeightFormat, ...], progress: Progress) -> Seen:
    """Every file by content, and the headers of weights. Raises `OSError`; what is in a file is never an error."""
    seen = Seen()
    with progress.task("read structure", total=len(tree.files), unit="files") as task:
        for entry in tree.files:
            location = tree.location(entry.path)
            kind = seen.contents[entry.path] = identify(location)
            named = entry.path.endswith(".safetensors") and kind in (ContentKind.BINARY, ContentKind.EMPTY)
            if named or kind is ContentKind.SAFETENSORS:
                seen.headers[entry.path] = read_header(location)
            elif kind is ContentKind.GGUF and "gguf" in formats:
                seen.ggufs[entry.path] = gguf.read_header(location)
            task.advance()
    return seen


def measurements(tree: Tree, seen: Seen, upstream: Upstream | None) -> tuple[Measurement, ...]:
    """What the report says of a tree; those of `headline` first."""
    tensors = [tensor for header in seen.headers.values() for tensor in header.tensors]
    packed = [tensor for header in seen.ggufs.values() for tensor in header.tensors]
    known = seen.comparison.parameters
    counted = "stored elements; packed weights count once per word" if known is None else "weights of the architecture"
    kinds = {"because": "; ".join(kind.because for kind in seen.kinds)}
    bases = ", ".join(ascii(kind.base[:80])[1:-1] for kind in seen.kinds if kind.base)
    shares = ", ".join(f"{dtype} {size}" for dtype, size in dtype_shares(seen.headers).items())
    return (
        Measurement(name="upstream", value=f"{upstream.repo_id}@{upstream.commit}" if upstream is not None else "none"),
        Measurement(name="tensors", value=len(tensors) + len(packed)),
        Measurement(
            name="kind",
            value=" + ".join(dict.fromkeys(kind.name for kind in seen.kinds)),
            parameters=kinds | ({"base": bases} if bases else {}),
        ),
        Measurement(name="files", value=len(tree.files)),
        Measurement(name="ignored", value=", ".join(IGNORED) or "none"),
        Measurement(name="bytes", value=tree.size_bytes, unit="bytes"),
        Measurement(
            name="parameters",
            value=(sum(tensor.elements for tensor in tensors) if known is None else known)
            + sum(tensor.elements for tensor in packed),
            parameters={"counted": counted},
        ),
        Measurement(
            name="tensor-bytes",
            value=sum(tensor.size_bytes for tensor in tensors) + sum(tensor.size_bytes for tensor in packed),
            unit="bytes",
            parameters={"by_dtype": shares},
        ),
    )
