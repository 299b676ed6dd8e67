"""Single files: headers, JSON, GGUF, pickles and archives, each judged against the reader that will use it.

What our reader takes must be taken by the reference, and mean the same to it; what ours refuses may be right or wrong.
For pickles it is the other way about: what the reference would import and call, ours must have seen.
"""

from __future__ import annotations

import io
import json
import math
import pickle
import random
import re
import zipfile
import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pydantic_core
import safetensors

from modelctl.errors import InputError
from modelctl.model import gguf
from modelctl.model import safetensors as ours
from modelctl.model.config import read_config
from modelctl.model.strict_json import parse_object
from modelctl.scan.containers import Budget, identify, unpack
from modelctl.scan.content import Content, Extent, UnreadableError
from modelctl.scan.gguf import chat_templates
from modelctl.scan.inside import Depth, Examined, look_inside
from modelctl.scan.pickles import walk_file
from modelctl.scan.zip_directory import Oddity
from tests.fuzz.mutate import mutate
from tests.fuzz.runner import WrongError
from tests.support import gguf as written
from tests.support.models import raw_safetensors
from tests.support.pickles import CALL_0, CALL_2, stack_global, tensor_pickle, through_memo, torch_zip

_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def safetensors_header(draw: random.Random, folder: Path) -> bytes:
    """Taken by us: taken by the library, with the same tensors of the same bytes."""
    content = mutate(draw, _safetensors())
    path = folder / "model.safetensors"
    path.write_bytes(content)
    header = ours.read_header(path)
    if header.problems:
        return content
    try:
        theirs = safetensors.deserialize(content)  # type: ignore[no-untyped-call]
    except safetensors.SafetensorError as error:
        raise WrongError(f"taken by us, refused by the library: {error}", content) from error
    data = content[header.data_start :]
    found = {item.name: (item.dtype, list(item.shape), data[item.begin : item.end]) for item in header.tensors}
    wanted = {name: (item["dtype"], item["shape"], bytes(item["data"])) for name, item in theirs}
    if found != wanted:
        raise WrongError(f"we read {found}, the library {wanted}", content)
    return content


def json_document(draw: random.Random, folder: Path) -> bytes:
    """Taken by us: two other readers, in C and in Rust, see the same; and config.json never raises but an error."""
    content = mutate(draw, _documents())
    (folder / "config.json").write_bytes(content)
    with suppress(InputError):
        read_config(folder / "config.json")
    try:
        value = parse_object(content, origin="document")
    except InputError:
        return content
    for name, theirs in (("json", json.loads(content)), ("pydantic_core", pydantic_core.from_json(content))):
        if not _same(value, theirs):
            raise WrongError(f"we read {value}, {name} {theirs}", content)
    return content


def gguf_header(draw: random.Random, folder: Path) -> bytes:
    """Taken by us: every tensor lies in the file, on its own, and the chat templates can be read."""
    content, header = _gguf(draw, folder)
    try:
        list(chat_templates(io.BytesIO(content)))
    except ValueError as error:
        if not header.problems:
            raise WrongError(f"the structure is fine and its templates cannot be read: {error}", content) from error
    if not header.problems and header.tensors:
        ends = [header.data_start, *(header.data_start + item.end for item in header.tensors)]
        begins = [*(header.data_start + item.begin for item in header.tensors), len(content)]
        if any(end > begin for end, begin in zip(ends, begins, strict=True)):
            raise WrongError(f"tensors that overlap or leave the file: {header.tensors}", content)
    return content


def gguf_reference(draw: random.Random, folder: Path) -> bytes:
    """Taken by us: the writer's own library sees the same tensors."""
    from gguf import GGUFReader

    content, header = _gguf(draw, folder)
    if not header.problems:
        found = [(item.name, item.type, header.data_start + item.begin) for item in header.tensors]
        reader = GGUFReader(folder / "model.gguf")
        theirs = [(item.name, item.tensor_type.name, item.data_offset) for item in reader.tensors]
        if found != theirs:
            raise WrongError(f"we read {found}, the library {theirs}", content)
    return content


def _gguf(draw: random.Random, folder: Path) -> tuple[bytes, gguf.GgufHeader]:
    content = mutate(draw, _ggufs())
    (folder / "model.gguf").write_bytes(content)
    return content, gguf.read_header(folder / "model.gguf")


def pickle_program(draw: random.Random, folder: Path) -> bytes:
    """Whatever Python's own machine would import and call, we have seen, or said that we could not tell."""
    content = mutate(draw, _pickles())
    walked = walk_file(io.BytesIO(content))
    seen = {(item.module, item.name) for program in walked for item in program.imports}
    unsure = any(program.unknown_name or program.problem for program in walked)
    machine = _Machine(io.BytesIO(content))
    with suppress(Exception):  # hostile programs end in any way; what they did until then counts
        machine.load()
    missed = machine.called - seen
    if missed and not unsure:
        raise WrongError(f"Python calls {sorted(missed)}, we saw {sorted(seen)}", content)
    return content


def archive(draw: random.Random, folder: Path) -> bytes:
    """What a zip reader opens we open too, with the same members or an error for them, within the budget."""
    content = mutate(draw, _archives())
    path = folder / "model.pt"
    path.write_bytes(content)
    (folder / "scratch").mkdir()
    names: set[str] = set()
    try:
        with path.open("rb") as file:
            whole = _read_all(Extent.of_file(file), folder / "scratch", names)
    except UnreadableError:
        return content
    if whole and zipfile.is_zipfile(path):
        with suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as opened:
            missed = {item.filename for item in opened.infolist() if item.file_size} - names
            if missed:
                raise WrongError(f"a zip reader opens {sorted(missed)}, we saw {sorted(names)}", content)
    return content


def inside(draw: random.Random, folder: Path) -> bytes:
    """Whatever a file holds, looking into it ends without an error; a hostile pickle that Python would load is seen."""
    content = mutate(draw, (*_archives(), *_models()))
    path = folder / "model.bin"
    path.write_bytes(content)
    (folder / "scratch").mkdir()
    examined = Examined(path="model.bin")
    depth = Depth(max_depth=3, max_members=100, max_unpacked_bytes=16 << 20, max_ratio=20)
    look_inside(path, examined, depth=depth, scratch=folder / "scratch", read=lambda stream, _: stream.read(7))
    if not examined.problems and zipfile.is_zipfile(path):
        with suppress(zipfile.BadZipFile, zlib.error, EOFError), zipfile.ZipFile(path) as opened:
            if any(opened.read(item) == CALL_2 for item in opened.infolist()):
                raise WrongError("a call in a member is not seen", content)
    return content


def _read_all(content: Content, scratch: Path, names: set[str]) -> bool:
    """Read every member and note its name; whether nothing at all was odd. Raises `UnreadableError`."""
    whole = True
    kind = identify(content)
    budget = Budget(unpacked_bytes=16 << 20, members=100)
    for member in unpack(content, kind, budget=budget, scratch=scratch) if kind else ():
        if isinstance(member, Oddity):
            whole = False
            continue
        stream = member.first_reading(budget)
        while stream.read(1 << 16):
            pass
        names.add(member.name)
    return whole


class _Called:
    """Stands for whatever a pickle imports: calling it, or setting its state, runs nothing and is written down."""

    def __init__(self, machine: _Machine, name: tuple[str, str]) -> None:
        self.__dict__.update(machine=machine, name=name)

    def __call__(self, *_: object, **__: object) -> _Called:
        self.machine.called.add(self.name)
        return self

    def __setstate__(self, _: object) -> None:
        self.machine.called.add(self.name)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


class _WholeLines(io.BytesIO):
    """A stream in which a line without an end is an error, as it is to Python's machine in C."""

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        if not line.endswith(b"\n"):
            raise EOFError
        return line


class _Machine(pickle._Unpickler):
    """Python's own pickle machine, in Python, with names that stand for nothing."""

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(_WholeLines(stream.getvalue()))
        self.called: set[tuple[str, str]] = set()

    def find_class(self, module: str, name: str) -> _Called:
        if not (_NAME.fullmatch(module) and _NAME.fullmatch(name)):
            raise ImportError(module)
        return _Called(self, (module, name))

    def persistent_load(self, _: object) -> None:
        return None


def _same(one: object, two: object) -> bool:
    """Equality that tells 1 from 1.0 and True, and holds NaN to be NaN."""
    if type(one) is not type(two):
        return False
    if isinstance(one, dict) and isinstance(two, dict):
        return list(one) == list(two) and all(_same(one[key], two[key]) for key in one)
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(_same, one, two))
    if isinstance(one, float) and isinstance(two, float) and math.isnan(one):
        return math.isnan(two)
    return one == two


@cache
def _safetensors() -> tuple[bytes, ...]:
    def entry(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, object]:
        return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}

    headers: tuple[dict[str, object], ...] = (
        {"a": entry("F32", [2, 2], 0, 16), "b": entry("BF16", [3], 16, 22), "e": entry("U8", [0], 22, 22)},
        {"__metadata__": {"format": "pt"}, "w": entry("I64", [], 0, 8), "v": entry("F8_E4M3", [14], 8, 22)},
        {"ä": entry("BOOL", [2, 11], 0, 22)},
        {},
    )
    data = bytes(range(22))
    made = [raw_safetensors(json.dumps(item).encode(), data if item else b"") for item in headers]
    return (*made, raw_safetensors(json.dumps(headers[0]).encode() + b" " * 7, data))


@cache
def _documents() -> tuple[bytes, ...]:
    config = {
        "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_attention_heads": 4, "rope_theta": 1e4,
        "num_hidden_layers": 2, "vocab_size": 320, "tie_word_embeddings": True, "dtype": "bfloat16", "head_dim": None,
        "quantization_config": {"bits": 4, "quant_method": "gptq"}, "max_position_embeddings": 256, "eps": -1.5e-05,
        "auto_map": {"AutoConfig": "other/repo--mod.Cls"}, "text_config": {"hidden_size": 64, "x": "\U0001f642é"},
    }  # fmt: skip
    nested = {"a": [[[{"b": [1, 2.0, "3", False]}]]]}
    return (
        json.dumps(config, indent=1).encode(),
        json.dumps(config, ensure_ascii=False).encode(),
        json.dumps(nested).encode(),
    )


@cache
def _ggufs() -> tuple[bytes, ...]:
    text = written.text
    entries = (
        written.entry("general.architecture", 8, text("llama")),
        written.entry("tokenizer.chat_template", 8, text("{{ messages }}")),
        written.entry("general.alignment", 4, (32).to_bytes(4, "little")),
        written.array("tokenizer.ggml.tokens", 8, 2, text("a") + text("b")),
        written.array("x", 5, 2, bytes(8)),
    )
    tensors = (written.tensor("a", [4, 4], 0, 0), written.tensor("b", [32, 2], 8, 64))
    whole = written.gguf(entries, tensors, bytes(64) + bytes(68) + bytes(28))
    return (
        whole,
        written.gguf(entries[:1], tensors[:1], bytes(64)),
        written.gguf(entries[:2]),
        written.gguf(entries, version=2),
    )


@cache
def _pickles() -> tuple[bytes, ...]:
    plain = tuple(pickle.dumps({"a": [1, 2.5, "x", b"y", (None, True)]}, protocol) for protocol in range(6))
    calls = (CALL_0, CALL_2, stack_global("posix", "system"), through_memo("posix", "system"))
    instance = (b"(S'true'\niposix\nsystem\n.", b"(cposix\nsystem\nS'true'\no.")
    return (*plain, *calls, *instance, tensor_pickle(), tensor_pickle(CALL_0[:-1] + b"0"))


@cache
def _archives() -> tuple[bytes, ...]:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("a/data.pkl", CALL_0 * 20)
        opened.writestr("b/", b"")
        opened.writestr("c.txt", b"x" * 5000)
    return (
        torch_zip(tensor_pickle()),
        torch_zip(CALL_2),
        packed.getvalue(),
        b"#!/bin/sh\n" + torch_zip(CALL_2),
        *_streams(),
    )


@cache
def _models() -> tuple[bytes, ...]:
    import numpy as np

    array = io.BytesIO()
    np.save(array, np.array([{}], dtype=object), allow_pickle=True)
    layer = {"class_name": "Lambda", "module": "keras.layers", "config": {"function": None}}
    keras = json.dumps({"class_name": "Sequential", "module": "keras", "config": {"layers": [layer]}}).encode()
    graph = b"\x0a\x0d\x0a\1n\x12\x08ReadFile" + b"\x08\x08"
    return array.getvalue(), keras, b"\x89HDF\r\n\x1a\n" + bytes(600) + b"model_config\0" + keras, graph


def _streams() -> tuple[bytes, ...]:
    import bz2
    import gzip
    import lzma
    import tarfile

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as opened:
        for name in ("a", "b"):
            info = tarfile.TarInfo(name)
            info.size = len(CALL_0)
            opened.addfile(info, io.BytesIO(CALL_0))
    tar = packed.getvalue()[:3072]
    return gzip.compress(tar, mtime=0), bz2.compress(tar), lzma.compress(tar), zlib.compress(tar), tar
