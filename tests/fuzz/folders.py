"""Whole model folders through the integrity check: what differs from the official listing is always a finding."""

from __future__ import annotations

import hashlib
import json
import random
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import safetensors

from modelctl.checks.base import Observation
from modelctl.checks.integrity import CHECK, IntegrityLimits
from modelctl.errors import CannotDecideError, InputError
from modelctl.model.listing import Upstream, UpstreamFile
from modelctl.model.safetensors import read_header
from modelctl.model.shards import INDEX_SUFFIX, check_indexes
from modelctl.model.tree import scan_tree
from tests.fuzz.mutate import mutate
from tests.fuzz.runner import WrongError
from tests.support.contexts import tree_context
from tests.support.models import tiny_llama

_INDEX = f"model{INDEX_SUFFIX}"


def shard_index(draw: random.Random, folder: Path) -> bytes:
    """An index without a problem maps every tensor as the right one does."""
    for name, content in _model().items():
        if name.endswith(".safetensors"):
            (folder / name).write_bytes(content)
    content = mutate(draw, [_model()[_INDEX]])
    (folder / _INDEX).write_bytes(content)
    tree = scan_tree(folder)
    headers = {entry.path: read_header(tree.location(entry.path)) for entry in tree.named(*_model())}
    headers.pop(_INDEX)
    if not list(check_indexes(tree, headers)):
        found, wanted = json.loads(content)["weight_map"], json.loads(_model()[_INDEX])["weight_map"]
        if found != wanted:
            raise WrongError(f"taken with another map: {found}", content)
    return content


def against_upstream(draw: random.Random, folder: Path) -> bytes | None:
    """One change anywhere: a finding, unless the bytes are the official ones after all."""
    model = folder / "model"
    content = _changed(draw, model)
    observation = _observe(model, folder, upstream=_listing(_model()))
    if observation is not None and not observation.findings and _contents(model) != dict(_model()):
        raise WrongError(f"passed with a difference in {sorted(_differences(model))}", content)
    return content


def without_upstream(draw: random.Random, folder: Path) -> bytes | None:
    """Nobody says which bytes are right, but what passes can be loaded, by the library and as JSON."""
    model = folder / "model"
    content = _changed(draw, model)
    observation = _observe(model, folder, upstream=None)
    if observation is None or observation.findings:
        return content
    for path in filter(Path.is_file, model.rglob("*")):
        try:
            if path.suffix == ".safetensors":
                safetensors.deserialize(path.read_bytes())  # type: ignore[no-untyped-call]
            elif path.suffix == ".json":
                json.loads(path.read_bytes())
        except (safetensors.SafetensorError, ValueError) as error:
            raise WrongError(f"passed, and {path.name} cannot be loaded: {error}", content) from error
    return content


def _observe(model: Path, folder: Path, *, upstream: Upstream | None) -> Observation | None:
    """What the check says; None when there is nothing left to check or it cannot tell, which is no pass."""
    try:
        context = tree_context(model, IntegrityLimits(), scratch=folder / "scratch")
        return CHECK.run(replace(context, source=replace(context.source, upstream=upstream)))
    except (CannotDecideError, InputError):
        return None


def _changed(draw: random.Random, model: Path) -> bytes:
    """Write the model with one change, and return the bytes of the changed file."""
    for name, content in _model().items():
        (model / name).parent.mkdir(parents=True, exist_ok=True)
        (model / name).write_bytes(content)
    victim = draw.choice(sorted(_model()))
    content = _model()[victim]
    match draw.choice(("bytes", "bytes", "bytes", "flip", "delete", "rename", "swap", "add", "link", "folder")):
        case "bytes":
            content = mutate(draw, [content])
            (model / victim).write_bytes(content)
        case "flip":
            place = draw.randrange(len(content))
            content = content[:place] + bytes([content[place] ^ 1 << draw.randrange(8)]) + content[place + 1 :]
            (model / victim).write_bytes(content)
        case "delete":
            (model / victim).unlink()
        case "rename":
            (model / victim).rename(model / draw.choice((victim.upper(), victim + ".bak", ".git-" + victim, "a\nb")))
        case "swap":
            other = draw.choice(sorted(_model()))
            (model / victim).write_bytes(_model()[other])
            (model / other).write_bytes(content)
        case "add":
            path = model / draw.choice((".git/x.py", "__pycache__/m.pyc", "x.bin", "model-00003-of-00003.safetensors"))
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        case "link":
            (model / victim).unlink()
            (model / victim).symlink_to(draw.choice(("/etc/passwd", "../scratch", victim, "config.json", ".")))
        case _:
            (model / victim).unlink()
            (model / victim).mkdir()
    return content


@cache
def _model() -> Mapping[str, bytes]:
    with tempfile.TemporaryDirectory(prefix="fuzz-model-") as folder:
        tiny_llama(Path(folder), shards=2, hidden=16, heads=2, kv_heads=1, intermediate=16, layers=1)
        return _contents(Path(folder))


def _contents(folder: Path) -> dict[str, bytes]:
    """What a loader would read under each name."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }  # fmt: skip


def _differences(model: Path) -> set[str]:
    found = _contents(model)
    return {name for name in found.keys() | _model().keys() if found.get(name) != _model().get(name)}


def _listing(files: Mapping[str, bytes]) -> Upstream:
    listed = {}
    for path, content in files.items():
        lfs = path.endswith(".safetensors")
        listed[path] = UpstreamFile(
            path=path,
            size_bytes=len(content),
            sha256=hashlib.sha256(content).hexdigest() if lfs else None,
            blob_sha1=None if lfs else hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest(),
        )
    return Upstream(repo_id="org/fuzz", commit="0" * 40, files=listed)
