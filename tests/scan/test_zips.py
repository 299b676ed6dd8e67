"""Zip archives that two readers would open differently are told; what PyTorch, NumPy and Python write is not."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from modelctl.scan.content import Extent, UnreadableError
from modelctl.scan.zip_directory import Oddity
from modelctl.scan.zips import read_zip
from tests.scan.test_containers import zipped
from tests.support.pickles import torch_written

CONTENT = b"content of a member " * 10


def plain(method: int = zipfile.ZIP_STORED) -> bytearray:
    return bytearray(zipped({"archive/data.pkl": CONTENT, "archive/data/0": b"numbers"}, method=method))


def rules(tmp_path: Path, content: bytes) -> set[str]:
    return {rule for rule, _ in oddities(tmp_path, content)}


def oddities(tmp_path: Path, content: bytes) -> list[tuple[str, str]]:
    path = tmp_path / "model.pt"
    path.write_bytes(content)
    with path.open("rb") as file:
        found = list(read_zip(Extent.of_file(file), lambda: None))
    return [(item.rule, item.detail) for item in found if isinstance(item, Oddity)]


def local(content: bytes, number: int = 0) -> int:
    """Where a local header begins."""
    place = -1
    for _ in range(number + 1):
        place = content.index(b"PK\3\4", place + 1)
    return place


def central(content: bytes, number: int = 0) -> int:
    place = -1
    for _ in range(number + 1):
        place = content.index(b"PK\1\2", place + 1)
    return place


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_python_writes_is_clean(tmp_path: Path, method: int) -> None:
    assert oddities(tmp_path, bytes(plain(method))) == []
    streamed = Unseekable()
    with zipfile.ZipFile(streamed, "w", method) as archive:
        archive.writestr("a", CONTENT)
        archive.writestr("b/", b"")
        with archive.open("large", "w", force_zip64=True) as member:
            member.write(CONTENT)
    assert oddities(tmp_path, streamed.getvalue()) == []


class Unseekable(io.BytesIO):
    """What makes zipfile write checksums and sizes behind the members."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: int) -> int:
        raise io.UnsupportedOperation

    def tell(self) -> int:
        raise io.UnsupportedOperation


def test_what_numpy_writes_is_clean(tmp_path: Path) -> None:
    packed = io.BytesIO()
    np.savez(packed, a=np.arange(3), b=np.zeros((0, 2)))
    assert oddities(tmp_path, packed.getvalue()) == []
    np.savez_compressed(packed, a=np.arange(3))


def test_what_torch_writes_is_clean(tmp_path: Path) -> None:
    """Padded headers, checksums behind the members, and a second end record in every file."""
    assert (
        oddities(tmp_path, torch_written({"data.pkl": CONTENT, "data/0": bytes(100), ".data/serialization_id": b"1"}))
        == []
    )


@pytest.mark.slow
def test_what_the_installed_torch_writes_is_clean(tmp_path: Path) -> None:
    import torch

    torch.save({"w": torch.ones(100), "b": torch.zeros(0), "h": torch.ones(3).half()}, tmp_path / "real.pt")
    assert oddities(tmp_path, (tmp_path / "real.pt").read_bytes()) == []


def _rename_local(content: bytearray) -> None:
    content[local(content) + 30 + 8 : local(content) + 30 + 12] = b"evil"


def _method_local(content: bytearray) -> None:
    content[local(content) + 8] = 8


def _flags_local(content: bytearray) -> None:
    content[local(content) + 7] = 8


def _size_local(content: bytearray) -> None:
    content[local(content) + 22] ^= 1


def _packed_size_local(content: bytearray) -> None:
    content[local(content) + 18] ^= 1


def _crc_local(content: bytearray) -> None:
    content[local(content) + 14] ^= 1


def _shorter_in_directory(content: bytearray) -> None:
    for field in (20, 24):
        content[central(content) + field] -= 10
    for field in (18, 22):
        content[local(content) + field] -= 10


def _twice_at_one_place(content: bytearray) -> None:
    content[central(content, 1) + 42 : central(content, 1) + 46] = bytes(4)


def _prefix(content: bytearray) -> None:
    content[:0] = b"#!/bin/sh\n"


def _suffix(content: bytearray) -> None:
    content += b"more"


def _gap(content: bytearray) -> None:
    content[central(content) : central(content)] = b"hidden member"


def _counts(content: bytearray) -> None:
    end = content.rindex(b"PK\5\6")
    for field in (8, 10):
        content[end + field] = 1


def _several_disks(content: bytearray) -> None:
    content[content.rindex(b"PK\5\6") + 4] = 1


def _two_ends(content: bytearray) -> None:
    """The comment of the first record is a directory and another record: readers take the one or the other."""
    end, start = content.rindex(b"PK\5\6"), central(content)
    again = content[start:]
    again[-6:-2] = struct.pack("<L", len(content))
    content[end + 20 : end + 22] = struct.pack("<H", len(again))
    content += again


def _second_name(content: bytearray) -> None:
    place = central(content)
    name = int.from_bytes(content[place + 28 : place + 30], "little")
    extra = struct.pack("<2HBL", 0x7075, 9, 1, 0) + b"evil"
    content[place + 30 : place + 32] = struct.pack("<H", len(extra))
    content[place + 46 + name : place + 46 + name] = extra
    end = content.rindex(b"PK\5\6")
    size = int.from_bytes(content[end + 12 : end + 16], "little") + len(extra)
    content[end + 12 : end + 16] = struct.pack("<L", size)


def _zip64_extra(content: bytearray) -> None:
    place = central(content)
    name = int.from_bytes(content[place + 28 : place + 30], "little")
    extra = struct.pack("<2HQ", 1, 8, 5)
    content[place + 30 : place + 32] = struct.pack("<H", len(extra))
    content[place + 46 + name : place + 46 + name] = extra
    end = content.rindex(b"PK\5\6")
    size = int.from_bytes(content[end + 12 : end + 16], "little") + len(extra)
    content[end + 12 : end + 16] = struct.pack("<L", size)


@pytest.mark.parametrize(
    "change",
    [
        _rename_local, _method_local, _flags_local, _size_local, _packed_size_local, _crc_local, _shorter_in_directory,
        _twice_at_one_place, _prefix, _suffix, _gap, _counts, _several_disks, _two_ends, _second_name, _zip64_extra,
    ],
)  # fmt: skip
def test_what_readers_may_take_differently_is_told(tmp_path: Path, change: Callable[[bytearray], None]) -> None:
    content = plain()
    change(content)
    assert "archive-ambiguous" in rules(tmp_path, bytes(content))


def test_a_name_that_comes_twice_in_any_case_is_told(tmp_path: Path) -> None:
    for name in ("a/data.pkl", "a/DATA.pkl"):
        content = zipped({"a/data.pkl": CONTENT, "a/data.xyz": CONTENT}).replace(b"a/data.xyz", name.encode())
        assert rules(tmp_path, content) == {"archive-ambiguous"}


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "C:/x", "a\\..\\x"])
def test_a_name_that_leaves_the_folder_is_told(tmp_path: Path, name: str) -> None:
    assert rules(tmp_path, zipped({name: CONTENT})) == {"archive-path"}


@pytest.mark.parametrize(("method", "words"), [(93, "zstd"), (9, "deflate64"), (77, "method 77")])
def test_a_method_that_is_not_opened_is_named(tmp_path: Path, method: int, words: str) -> None:
    content = plain()
    for place in (local(content) + 8, central(content) + 10):
        content[place] = method
    (oddity,) = oddities(tmp_path, bytes(content))
    assert oddity[0] == "archive"
    assert words in oddity[1]


def test_a_header_that_is_not_there_is_told(tmp_path: Path) -> None:
    content = plain()
    content[central(content) + 42] = 7
    assert "archive" in rules(tmp_path, bytes(content))


def test_a_descriptor_that_disagrees_is_told(tmp_path: Path) -> None:
    content = bytearray(torch_written({"data.pkl": CONTENT}))
    content[content.index(b"PK\7\x08") + 4] ^= 1
    assert "archive-ambiguous" in rules(tmp_path, bytes(content))


@pytest.mark.parametrize("field", [24, 32, 40, 48])
def test_end_records_that_disagree_are_told(tmp_path: Path, field: int) -> None:
    content = bytearray(torch_written({"data.pkl": CONTENT}))
    content[content.index(b"PK\6\6") + field] ^= 1
    with suppress(UnreadableError):  # which refuses it too
        assert "archive-ambiguous" in rules(tmp_path, bytes(content))


def test_a_thousand_members_over_one_another_are_told_in_a_few_lines(tmp_path: Path) -> None:
    """In the manner of David Fifield's bomb: all entries lead to the same bytes."""
    content = plain()
    entry = bytes(content[central(content) : central(content, 1)])
    directory = entry * 1000
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1000, 1000, len(directory), central(content), 0)
    found = oddities(tmp_path, bytes(content[: central(content)]) + directory + end)
    assert {rule for rule, _ in found} == {"archive-ambiguous"}
    assert len(found) <= 21


def test_a_nameless_member_is_told_and_no_error_is_raised(tmp_path: Path) -> None:
    content = bytearray(zipped({"a": CONTENT}))
    directory = content.rindex(b"PK\1\2")
    content[directory + 28 : directory + 32] = b"\0\0\1\0"
    assert "archive-path" in rules(tmp_path, bytes(content))
