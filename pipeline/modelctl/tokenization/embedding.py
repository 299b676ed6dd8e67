"""How many rows the model's embedding has: the ceiling of every token id, read from the headers of the weights.

config.json's `vocab_size` must say the same: an engine allocates by the one and loads the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from modelctl.model.config import ModelConfig
from modelctl.model.safetensors import read_header
from modelctl.tokenization.report import Ledger, shown

_TABLES = re.compile(
    r"(^|\.)(embed_tokens|wte|embed_in|word_embeddings|tok_embeddings|embedding|embeddings|shared|emb)\.weight$"
)
"""What families call the table from token id to vector; those of positions, images and sounds are named otherwise."""
_OTHER_PARTS = re.compile(r"(^|\.)(vision|visual|image|audio|speech|encoder_audio|codec|talker)[a-z_]*\.")


@dataclass(frozen=True, kw_only=True)
class Ceiling:
    """Ids must be below `rows`; `origin` words where that is known from. None: it is not known."""

    rows: int | None
    origin: str


def find_ceiling(folder: Path, files: Sequence[str], config: ModelConfig | None, ledger: Ledger) -> Ceiling:
    """The embedding's rows, from the safetensors files named (relative to `folder`), else from config.json."""
    tables = sorted(set(_tables(folder, files)))
    stated = config.vocab_size if config is not None else None
    if not tables:
        if stated is not None:
            ledger.excluded.append(
                "no embedding table found in safetensors files: vocab_size of config.json is taken for it"
            )
            return Ceiling(rows=stated, origin=f"config.json says vocab_size {stated}")
        ledger.doubt(
            "how many rows the embedding has is not known: no table in safetensors files, no vocab_size in config.json",
            remedy="publish the weights as safetensors, with config.json beside them",
        )
        return Ceiling(rows=None, origin="unknown")
    rows, name, path = tables[0]
    ledger.figure("embedding-rows", rows, tensor=name)
    if stated is not None and all(stated != table_rows for table_rows, _, _ in tables):
        ledger.problem(
            "vocab-size",
            f"config.json says vocab_size {stated}, but {shown(name)} has {rows} rows: engines allocate by the one "
            "and load the other",
            remedy="take config.json and the weights from one revision of the upstream repository",
            path=path,
        )
    return Ceiling(rows=rows, origin=f"{shown(name)} in {path} has {rows} rows")


def _tables(folder: Path, files: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    for path in files:
        for tensor in read_header(folder / path).tensors:
            if len(tensor.shape) == 2 and _TABLES.search(tensor.name) and not _OTHER_PARTS.search(tensor.name):
                yield tensor.shape[0], tensor.name, path
