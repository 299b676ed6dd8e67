"""Where quantised models are kept: `staging/<tree digest>`, complete or not at all, each hashed again before reuse.

What made one is remembered in a record under the digest of all its inputs. A model that no run has used for
`KEEP_DAYS` is removed when the next one is placed; its record stays and makes the next estimate.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from modelctl.files import write_whole
from modelctl.model.tree import DIGEST_PREFIX, Tree, scan_tree
from modelctl.progress import Progress

KEEP_DAYS = 30
PARTIAL = ".making-"


@dataclass(frozen=True, kw_only=True)
class Made:
    """What one quantisation made, and everything that moves it."""

    tree_digest: str
    recipe_digest: str
    """Of source, recipe, calibration text and library versions."""
    calibration: str
    """Where the text is from."""
    calibration_sha256: str
    samples: int
    sample_tokens: int
    text_tokens: int
    """Tokens that the text holds, or as many of them as were needed."""
    modules: int
    left_alone: tuple[str, ...]
    """Matrices that were to be quantised and were not."""
    device: str
    threads: int
    instructions: str
    """Of the processor, as torch names them (AVX2, AVX512): others round otherwise."""
    versions: dict[str, str]
    work: float
    seconds: float
    peak_memory_bytes: int
    differs_from: str | None = None
    """The digest that the same inputs gave before, when it was another one."""


_MADE: TypeAdapter[Made] = TypeAdapter(Made)


@dataclass(frozen=True, kw_only=True)
class Kept:
    """One quantised model on this disk."""

    folder: Path
    size_bytes: int
    unused_days: float


def read_made(record: Path) -> Made | None:
    """A record; None when there is none, or one of another version."""
    try:
        return _MADE.validate_json(record.read_bytes())
    except (OSError, ValidationError):
        return None


def find(made: Made, staging: Path, progress: Progress) -> Tree | None:
    """The model of a record, hashed again; None when it is gone or its bytes are not those that were made."""
    folder = _folder(staging, made.tree_digest)
    if not folder.is_dir():
        return None
    tree = scan_tree(folder, progress=progress, label="hash the quantised model")
    if tree.digest != made.tree_digest:
        progress.note(f"{folder}: its bytes are not what was made; quantising again")
        shutil.rmtree(folder)
        return None
    os.utime(folder)
    return tree


def place(ready: Path, tree: Tree, staging: Path) -> Tree:
    """Move a complete model to its place in one step."""
    target = _folder(staging, tree.digest)
    if target.exists():
        shutil.rmtree(target)
    ready.rename(target)
    os.utime(target)
    return replace(tree, root=target.resolve())


def remember(made: Made, record: Path) -> None:
    """Write a record, whole or not at all."""
    record.parent.mkdir(parents=True, exist_ok=True)
    write_whole(record, json.dumps(asdict(made)) + "\n")


def sweep(staging: Path) -> None:
    """Take away what runs that were killed have left half-made."""
    import psutil

    for folder in staging.glob(f"{PARTIAL}*"):
        maker = folder.name.removeprefix(PARTIAL).partition("-")[0]
        if not (maker.isdigit() and psutil.pid_exists(int(maker))):
            shutil.rmtree(folder, ignore_errors=True)


def prune(staging: Path, progress: Progress) -> None:
    """Remove the models that no run has used for `KEEP_DAYS`, and say what stays."""
    models = list(kept(staging))
    stay = [item for item in models if item.unused_days <= KEEP_DAYS]
    for item in models:
        if item not in stay:
            shutil.rmtree(item.folder, ignore_errors=True)
            progress.note(
                f"removed a quantised model that was not used for {item.unused_days:.0f} days "
                f"({item.size_bytes / 1e6:.0f} MB, {item.folder.name[:12]})"
            )
    progress.note(
        f"{staging} keeps {len(stay)} quantised model{'s' if len(stay) != 1 else ''}, "
        f"{sum(item.size_bytes for item in stay) / 1e6:.0f} MB; one goes {KEEP_DAYS} days after its last use"
    )


def kept(staging: Path) -> Iterator[Kept]:
    """The quantised models on this disk, by name."""
    if not staging.is_dir():
        return
    for folder in sorted(staging.iterdir()):
        if folder.is_dir() and not folder.name.startswith("."):
            yield Kept(
                folder=folder,
                size_bytes=sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file()),
                unused_days=(time.time() - folder.stat().st_mtime) / 86400,
            )


def _folder(staging: Path, digest: str) -> Path:
    return staging / digest.removeprefix(DIGEST_PREFIX)
