"""What a file is by its content, whatever its name says.

Signatures are checked together with some structure behind them. Nothing is unpacked or loaded, and at most the first
64 KiB are read.
"""

from __future__ import annotations

import codecs
import io
import json
import pickletools
import re
import struct
from enum import StrEnum
from pathlib import Path

WINDOW_BYTES = 64 << 10
_LFS_POINTER = re.compile(rb"\Aversion https://git-lfs\.github\.com/spec/v1\r?\n")
_HTML = re.compile(rb"\A\s*(<!--.*?-->\s*)?<(!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
_PYTHON = re.compile(
    rb"^(import [\w., ]+|from [\w.]+ import |def \w+\(.*|class \w+[(:].*|if __name__ ==.*|@\w[\w.]*(\(.*\))?\s*$)",
    re.MULTILINE,
)
MAX_OPCODES = 5000
"""How far a pickle program is followed."""
_MODULE_AND_NAME = re.compile(r"[^\W\d][\w.]* [^\W\d][\w.<>]*")
_GLOBALS = {"GLOBAL", "STACK_GLOBAL", "INST"}
_CALLS = {"REDUCE", "OBJ", "NEWOBJ", "NEWOBJ_EX", "BUILD"}
_TUPLES = {"TUPLE", "EMPTY_TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "MARK"}
_CLOSED_COMPRESSORS = (
    (b"\x1f\x8b\x08", "gzip"),
    (b"BZh", "bz2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
)


class ContentKind(StrEnum):
    """Everything that `identify` tells apart."""

    EMPTY = "empty"
    SAFETENSORS = "safetensors"
    GGUF = "gguf"
    PICKLE = "pickle"
    TORCH_ZIP = "torch zip"
    ZIP = "zip"
    TAR = "tar"
    GZIP = "gzip"
    BZ2 = "bz2"
    XZ = "xz"
    ZSTD = "zstd"
    SEVEN_ZIP = "7z"
    NUMPY = "numpy"
    HDF5 = "hdf5"
    EXECUTABLE = "executable"
    LFS_POINTER = "Git LFS pointer"
    HTML = "HTML"
    JSON = "JSON"
    PYTHON = "Python"
    SHELL = "shell script"
    TEXT = "text"
    BINARY = "unknown binary"


ARCHIVES = frozenset(
    {
        ContentKind.ZIP,
        ContentKind.TAR,
        ContentKind.GZIP,
        ContentKind.BZ2,
        ContentKind.XZ,
        ContentKind.ZSTD,
        ContentKind.SEVEN_ZIP,
    }
)
"""Kinds that hold other files."""
SERIALIZED = frozenset({ContentKind.PICKLE, ContentKind.TORCH_ZIP, ContentKind.NUMPY, ContentKind.HDF5})
"""Kinds that programs load objects from, code included."""


def identify(path: Path) -> ContentKind:
    """What the file is. Raises `OSError` when it cannot be read."""
    with path.open("rb") as stream:
        head = stream.read(WINDOW_BYTES)
        size = stream.seek(0, 2)
    return identify_bytes(head, size=size)


def identify_bytes(head: bytes, *, size: int) -> ContentKind:
    """The same for a file's first bytes and its whole size in bytes."""
    if size == 0:
        return ContentKind.EMPTY
    return _by_signature(head, size) or _by_structure(head, size) or ContentKind.BINARY


def lfs_pointer(head: bytes) -> tuple[str, int] | None:
    """The sha256 and size in bytes that a Git LFS pointer stands for, or None when it is none."""
    if not _LFS_POINTER.match(head):
        return None
    oid = re.search(rb"^oid sha256:([0-9a-f]{64})\s*$", head, re.MULTILINE)
    size = re.search(rb"^size (\d{1,19})\s*$", head, re.MULTILINE)
    return (oid[1].decode(), int(size[1])) if oid and size else None


def _by_signature(head: bytes, size: int) -> ContentKind | None:
    if _LFS_POINTER.match(head) and size < 4096:
        return ContentKind.LFS_POINTER
    if head[:4] == b"GGUF" and len(head) >= 8:
        return ContentKind.GGUF
    if head[:4] in (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08"):
        return ContentKind.TORCH_ZIP if _torch_member(head) else ContentKind.ZIP
    for signature, kind in _CLOSED_COMPRESSORS:
        if head.startswith(signature) and (kind != "bz2" or head[4:10] == b"1AY&SY"):
            return ContentKind(kind)
    if head[:6] == b"\x93NUMPY":
        return ContentKind.NUMPY
    if head[:8] == b"\x89HDF\r\n\x1a\n":
        return ContentKind.HDF5
    if head[:4] == b"\x7fELF" or (head[:2] == b"MZ" and b"PE\0\0" in head[:1024]):
        return ContentKind.EXECUTABLE
    if head[257:262] == b"ustar" or _old_tar(head):
        return ContentKind.TAR
    return None


def _by_structure(head: bytes, size: int) -> ContentKind | None:
    if _is_safetensors(head, size):
        return ContentKind.SAFETENSORS
    if _is_pickle(head, size):
        return ContentKind.PICKLE
    text = _decode(head, size)
    if text is None:
        return None
    if _HTML.match(head):
        return ContentKind.HTML
    if _is_json(text, size):
        return ContentKind.JSON
    first = head[:128].split(b"\n", 1)[0]
    if first.startswith(b"#!"):
        return ContentKind.PYTHON if b"python" in first else ContentKind.SHELL
    return ContentKind.PYTHON if _PYTHON.search(head) else ContentKind.TEXT


def _torch_member(head: bytes) -> bool:
    """Whether a zip's first member is one that torch.save writes: `<name>/data.pkl`, `.format_version`, `version`, …"""
    name_length = int.from_bytes(head[26:28], "little")
    name = head[30 : 30 + name_length]
    return name.endswith((b"/data.pkl", b"/.format_version", b"/version", b"/byteorder", b"/.data/serialization_id"))


def _old_tar(head: bytes) -> bool:
    """A tar header without magic: the octal checksum at 148 equals the block's sum with blanks in its place."""
    block = head[:512]
    if len(block) < 512 or not block[0]:
        return False
    stated = block[148:156].strip(b" \0")
    if not re.fullmatch(rb"[0-7]{1,7}", stated):
        return False
    return int(stated, 8) == sum(block[:148]) + 8 * ord(" ") + sum(block[156:])


def _is_safetensors(head: bytes, size: int) -> bool:
    return len(head) >= 10 and head[8:9] == b"{" and 1 < struct.unpack("<Q", head[:8])[0] <= size - 8


def _is_pickle(head: bytes, size: int) -> bool:
    """Whether the bytes run as pickle code.

    Protocol 2 and later announce themselves; the two older ones are text-like, so they count only when the program ends
    with the file, loads a global and ends, or has called one by then (what follows a call may be anything).
    """
    announced = len(head) > 2 and head[0] == 0x80 and 2 <= head[1] <= 5
    seen: set[str] = set()
    count = 0
    try:
        for opcode, argument, position in pickletools.genops(io.BytesIO(head)):
            if opcode.name in ("GLOBAL", "INST") and not _MODULE_AND_NAME.fullmatch(str(argument)):
                break  # lines of prose; a reader that runs them as pickle stops here
            if opcode.name == "INST" and "MARK" not in seen:
                break  # it takes what lies above a mark: a list of words, one of which begins with an i
            seen.add(opcode.name)
            count += 1
            if opcode.name == "STOP":
                whole = position is not None and position + 1 >= size
                return announced or bool(seen & _GLOBALS) or (whole and count > 1)
            if count >= MAX_OPCODES:
                break
    except (ValueError, AttributeError):
        pass  # the bytes stop being pickle code here
    called = "INST" in seen or bool(seen & _GLOBALS and seen & _CALLS and seen & _TUPLES)
    return called or (announced and count > 1)


def _decode(head: bytes, size: int) -> str | None:
    if b"\0" in head:
        return None
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    try:
        return decoder.decode(head, final=size <= len(head))
    except UnicodeDecodeError:
        return None


def _is_json(text: str, size: int) -> bool:
    start = text.lstrip()[:1]
    if start not in ("{", "["):
        return False
    if size > WINDOW_BYTES:
        return bool(re.match(r'\s*(\{\s*"|\[\s*[\[{"\d\-\]])', text))
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
