"""Files by their content: real ones made by the tools that make them."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import pickletools
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelctl.model.content import WINDOW_BYTES, ContentKind, identify, identify_bytes, lfs_pointer
from tests.support.hub import lfs_pointer as make_pointer
from tests.support.models import raw_safetensors, tiny_llama

# What the evil pickles hold: never loaded, only built.
GADGETS = {
    0: b"cposix\nsystem\n(S'true'\ntR.",
    1: b"cposix\nsystem\nq\x00(X\x04\x00\x00\x00truetq\x01R.",
    2: b"\x80\x02cposix\nsystem\nX\x04\x00\x00\x00true\x85R.",
    4: b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R.",
}


ONE_LONG_LINE = json.dumps({"你" * 99_999: 1}, ensure_ascii=False).encode()
"""The window ends inside a character, for two shifts of three."""


def archive(kind: str) -> bytes:
    sink = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(sink, "w") as target:
            target.writestr("a.txt", "a")
    elif kind == "torch zip":
        with zipfile.ZipFile(sink, "w") as target:
            target.writestr("archive/data.pkl", GADGETS[2])
    else:
        formats = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
        with tarfile.open(fileobj=sink, mode="w", format=formats[kind]) as target:
            target.addfile(tarfile.TarInfo("pickle"), io.BytesIO())
    return sink.getvalue()


def old_tar() -> bytes:
    """A tar without the ustar magic, as Python's oldest torch files have it."""
    block = bytearray(archive("ustar"))
    block[257:265] = b"\0" * 8
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block[:512])
    return bytes(block)


def numpy_file() -> bytes:
    sink = io.BytesIO()
    np.save(sink, np.zeros(3))
    return sink.getvalue()


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", ContentKind.EMPTY),
        (raw_safetensors(b"{}      "), ContentKind.SAFETENSORS),
        (b"GGUF\x03\0\0\0" + b"\0" * 16, ContentKind.GGUF),
        *[(GADGETS[protocol], ContentKind.PICKLE) for protocol in GADGETS],
        *[(GADGETS[protocol][:-1] + b"\xff rest", ContentKind.PICKLE) for protocol in GADGETS],
        (b"import\nos\nclass\nexec\n", ContentKind.TEXT),  # words, of which `i` and `c` are opcodes
        (GADGETS[0][:-1] + b"cno module\nhere\n.", ContentKind.PICKLE),
        (b"(S'true'\niposix\nsystem\n.", ContentKind.PICKLE),
        *[(pickle.dumps({"a": [1, 2.5, "x"]}, protocol=protocol), ContentKind.PICKLE) for protocol in range(6)],
        *[(pickle.dumps([b"x" * 200_000], protocol=protocol), ContentKind.PICKLE) for protocol in range(2, 6)],
        (archive("zip"), ContentKind.ZIP),
        (archive("torch zip"), ContentKind.TORCH_ZIP),
        *[(archive(kind), ContentKind.TAR) for kind in ("ustar", "gnu", "pax")],
        (old_tar(), ContentKind.TAR),
        (gzip.compress(b"x", mtime=0), ContentKind.GZIP),
        (bz2.compress(b"x"), ContentKind.BZ2),
        (lzma.compress(b"x"), ContentKind.XZ),
        (b"\x28\xb5\x2f\xfd\x04\x00", ContentKind.ZSTD),
        (b"7z\xbc\xaf\x27\x1c\0\x04", ContentKind.SEVEN_ZIP),
        (numpy_file(), ContentKind.NUMPY),
        (b"\x89HDF\r\n\x1a\n\0", ContentKind.HDF5),
        (Path(sys.executable).resolve().read_bytes(), ContentKind.EXECUTABLE),
        (make_pointer(b"weights"), ContentKind.LFS_POINTER),
        (b"<!DOCTYPE html><html></html>", ContentKind.HTML),
        (b"\n<!-- hi -->\n<HTML lang=en>", ContentKind.HTML),
        (b'{"a": 1}', ContentKind.JSON),
        (json.dumps({f"k{i}": i for i in range(20_000)}).encode(), ContentKind.JSON),
        *[(b" " * shift + ONE_LONG_LINE, ContentKind.JSON) for shift in range(3)],
        (b"import os\nos.system('x')\n", ContentKind.PYTHON),
        (b"#!/usr/bin/env python3\nprint(1)\n", ContentKind.PYTHON),
        (b"#!/bin/sh\ntrue\n", ContentKind.SHELL),
        (b"# Model card\n\nHello.\n", ContentKind.TEXT),
        ("Größe: 你好\n".encode() * 10_000, ContentKind.TEXT),
        (b"{ not json", ContentKind.TEXT),
        (b"PK is a town\n", ContentKind.TEXT),
        (b"BZh is no archive\n", ContentKind.TEXT),
        (b"I love models.\n", ContentKind.TEXT),
        (b"(see below)\n.\n", ContentKind.TEXT),
        (b"cats\nand dogs\n.", ContentKind.TEXT),
        (b"copyright\nholders\nReserve all rights\n", ContentKind.TEXT),
        (b"(in short\nno code\n", ContentKind.TEXT),
        (b"\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0", ContentKind.BINARY),
        (b"\x80\xff\0\1", ContentKind.BINARY),
    ],
)  # fmt: skip
def test_content_decides(tmp_path: Path, content: bytes, kind: ContentKind) -> None:
    path = tmp_path / "license.dat"
    path.write_bytes(content)
    assert identify(path) is kind


def test_every_file_of_a_real_model(tmp_path: Path) -> None:
    kinds = {path.name: identify(path) for path in tiny_llama(tmp_path).iterdir()}
    assert kinds.pop("model.safetensors") is ContentKind.SAFETENSORS
    assert kinds.pop("chat_template.jinja") is ContentKind.TEXT
    assert set(kinds.values()) == {ContentKind.JSON}


def test_a_pointer_says_what_it_stands_for() -> None:
    pointer = lfs_pointer(make_pointer(b"weights"))
    assert pointer is not None
    assert (len(pointer[0]), pointer[1]) == (64, 7)
    assert lfs_pointer(b"version 1") is None


@given(st.binary(max_size=600))
def test_any_bytes_have_a_kind(content: bytes) -> None:
    assert identify_bytes(content[:WINDOW_BYTES], size=len(content)) in ContentKind


@pytest.mark.slow
@given(st.recursive(st.none() | st.integers() | st.text() | st.binary(), st.lists, max_leaves=8), st.integers(2, 5))
def test_every_announced_pickle_is_seen(value: object, protocol: int) -> None:
    content = pickletools.optimize(pickle.dumps(value, protocol=protocol))
    assert identify_bytes(content[:WINDOW_BYTES], size=len(content)) is ContentKind.PICKLE
