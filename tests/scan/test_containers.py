"""Archives are known by their bytes, unpacked within a budget, and never passed over."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path

import pytest

from modelctl.errors import CannotDecideError
from modelctl.scan.clamd import Readable
from modelctl.scan.containers import Budget, BudgetError, Kind, identify, unpack
from modelctl.scan.content import Extent, Packed, UnreadableError
from modelctl.scan.zip_directory import Oddity

CONTENT = b"content of a member " * 50


def zipped(members: dict[str, bytes], *, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


def tarred(members: dict[str, bytes], *, style: int = tarfile.PAX_FORMAT) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=style) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


PACKED: dict[Kind, bytes] = {
    "zip": zipped({"a": CONTENT}),
    "tar": tarred({"a": CONTENT}),
    "gzip": gzip.compress(CONTENT, mtime=0),
    "bzip2": bz2.compress(CONTENT),
    "xz": lzma.compress(CONTENT),
    "lzma": lzma.compress(CONTENT, format=lzma.FORMAT_ALONE),
    "zlib": zlib.compress(CONTENT),
}


def budget(*, unpacked_bytes: int = 1 << 20, members: int = 10) -> Budget:
    return Budget(unpacked_bytes=unpacked_bytes, members=members)


def put(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    return path


def exhaust(stream: Readable) -> None:
    while stream.read(1000):
        pass


def kind_of(path: Path) -> Kind | None:
    with path.open("rb") as file:
        return identify(Extent.of_file(file))


def members(path: Path, allowed: Budget, scratch: Path) -> dict[str, bytes | str]:
    """Members by name, and a rule by its detail for what is odd."""
    found: dict[str, bytes | str] = {}
    with path.open("rb") as file:
        content = Extent.of_file(file)
        kind = identify(content)
        assert kind is not None
        for member in unpack(content, kind, budget=allowed, scratch=scratch):
            if isinstance(member, Oddity):
                found[member.detail] = member.rule
                continue
            stream, read = member.first_reading(allowed), b""
            try:
                while part := stream.read(1000):
                    read += part
            except BudgetError:
                raise
            except UnreadableError as error:
                found[f"{member.name}: {error}"] = "unreadable"
                continue
            with member.content.open() as again:
                assert again.read() == read
            assert member.content.peek(5, 7) == read[5:12]
            assert member.content.tail() == read[-65_557:]
            found[member.name] = read
    return found


@pytest.mark.parametrize("kind", PACKED)
def test_every_kind_is_known_by_its_bytes_and_unpacked(tmp_path: Path, kind: Kind) -> None:
    path = put(tmp_path, PACKED[kind])
    assert kind_of(path) == kind
    assert list(members(path, budget(), tmp_path).values()) == [CONTENT]
    assert [item.name for item in tmp_path.iterdir()] == ["config.json"]


def test_a_zlib_stream_that_begins_with_nothing_is_one(tmp_path: Path) -> None:
    packed = zlib.compressobj(wbits=-15)
    content = b"\x78\x01" + b"\0\0\0\xff\xff" * 300 + packed.compress(CONTENT) + packed.flush()
    path = put(tmp_path, content + struct.pack(">L", zlib.adler32(CONTENT)))
    assert list(members(path, budget(), tmp_path).values()) == [CONTENT]


@pytest.mark.parametrize("dictionary", [0, 5000, 3 << 20])
def test_an_lzma_stream_of_any_dictionary_is_one(tmp_path: Path, dictionary: int) -> None:
    content = b"\x5d" + struct.pack("<L", dictionary) + PACKED["lzma"][5:]
    assert list(members(put(tmp_path, content), budget(), tmp_path).values()) == [CONTENT]


def test_an_lzma_stream_of_a_giant_dictionary_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="dictionary of 4294967295 bytes"):
        kind_of(put(tmp_path, b"\x5d\xff\xff\xff\xff" + PACKED["lzma"][5:]))


def test_whole_numbers_are_no_lzma_stream(tmp_path: Path) -> None:
    assert kind_of(put(tmp_path, struct.pack("<200q", 0x5D, 7, *range(198)))) is None


def test_a_zip_behind_something_else_is_a_zip(tmp_path: Path) -> None:
    path = put(tmp_path, b"{}" + bytes(100_000) + zipped({"a": CONTENT}) + b"")
    assert kind_of(path) == "zip"
    found = members(path, budget(), tmp_path)
    assert found.pop("a") == CONTENT
    assert set(found.values()) == {"archive-ambiguous"}


def test_an_old_tar_has_no_magic(tmp_path: Path) -> None:
    content = bytearray(tarred({"pickle": CONTENT}, style=tarfile.USTAR_FORMAT))
    content[257:265] = bytes(8)
    content[148:156] = b"%06o\0 " % (sum(content[:148]) + 8 * 32 + sum(content[156:512]))
    assert members(put(tmp_path, bytes(content)), budget(), tmp_path) == {"pickle": CONTENT}


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"text", bytes(2000), b"x\x9cnot zlib", b"BZhello", b"PK", b"\x5d\0\0no lzma" + bytes(50)]
)
def test_other_files_are_no_archives(tmp_path: Path, content: bytes) -> None:
    assert kind_of(put(tmp_path, content)) is None


@pytest.mark.parametrize("magic", [b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07\0", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18"])
def test_archives_that_are_not_opened_are_named(tmp_path: Path, magic: bytes) -> None:
    with pytest.raises(UnreadableError, match="not opened here"):
        kind_of(put(tmp_path, magic + bytes(100)))


@pytest.mark.parametrize("kind", PACKED)
def test_the_budget_ends_a_bomb(tmp_path: Path, kind: Kind) -> None:
    path = put(tmp_path, PACKED[kind])
    with pytest.raises(BudgetError, match="more bytes"):
        members(path, budget(unpacked_bytes=len(CONTENT) - 1), tmp_path)


def test_the_budget_counts_members(tmp_path: Path) -> None:
    path = put(tmp_path, zipped({f"{number}": b"" for number in range(11)}))
    with pytest.raises(BudgetError, match="more members"):
        members(path, budget(), tmp_path)


@pytest.mark.parametrize("kind", [kind for kind in PACKED if kind not in ("zip", "tar")])
def test_a_stream_that_is_cut_off_is_broken(tmp_path: Path, kind: Kind) -> None:
    path = put(tmp_path, PACKED[kind][: len(PACKED[kind]) // 2])
    assert list(members(path, budget(), tmp_path).values()) == ["unreadable"]


@pytest.mark.parametrize("kind", [kind for kind in PACKED if kind not in ("zip", "tar")])
def test_bytes_behind_a_packed_stream_are_told(tmp_path: Path, kind: Kind) -> None:
    assert "unreadable" in members(put(tmp_path, PACKED[kind] + b"hidden"), budget(), tmp_path).values()


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_bytes_behind_the_packed_bytes_of_a_member_are_told(tmp_path: Path, method: int) -> None:
    honest = zipped({"a": CONTENT}, method=method)
    assert members(put(tmp_path, honest), budget(), tmp_path) == {"a": CONTENT}
    hidden = 6
    at = honest.index(b"PK\1\2")
    longer = bytearray(honest[:at] + bytes(hidden) + honest[at:])
    size = struct.unpack_from("<L", honest, 18)[0] + hidden
    struct.pack_into("<L", longer, 18, size)
    struct.pack_into("<L", longer, at + hidden + 20, size)
    struct.pack_into("<L", longer, len(longer) - 6, at + hidden)
    found = members(put(tmp_path, bytes(longer)), budget(), tmp_path)
    assert list(found) == ["a: bytes behind the end of its packed data belong to nothing"]


def test_what_can_be_read_of_a_stream_that_is_cut_off_can_be_looked_into(tmp_path: Path) -> None:
    packed = zlib.compressobj(0)
    path = put(tmp_path, packed.compress(CONTENT * 100) + packed.flush())
    path.write_bytes(path.read_bytes()[:90_000])
    with path.open("rb") as file:
        content = Extent.of_file(file)
        (member,) = unpack(content, "zlib", budget=budget(), scratch=tmp_path)
        assert not isinstance(member, Oddity)
        stream = member.first_reading(budget())
        with pytest.raises(UnreadableError, match="ends early"):
            exhaust(stream)
        with member.content.open() as again:
            assert again.read(len(CONTENT)) == CONTENT


def test_a_tar_that_is_cut_off_is_broken(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match=r"broken|outside"):
        members(put(tmp_path, PACKED["tar"][:700]), budget(), tmp_path)


def test_a_zip_without_its_directory_is_broken(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="broken zip"):
        members(put(tmp_path, PACKED["zip"][:60]), budget(), tmp_path)


def test_a_wrong_checksum_names_the_member(tmp_path: Path) -> None:
    content = bytearray(zipped({"archive/data.pkl": CONTENT, "b": b"fine and long"}, method=zipfile.ZIP_STORED))
    content[60] ^= 1
    found = members(put(tmp_path, bytes(content)), budget(), tmp_path)
    assert found.pop("b") == b"fine and long"
    assert "archive/data.pkl" in next(iter(found))


def test_an_encrypted_member_is_named(tmp_path: Path) -> None:
    content = bytearray(zipped({"secret": CONTENT}))
    for header, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        content[content.index(header) + flags] |= 1
    found = members(put(tmp_path, bytes(content)), budget(), tmp_path)
    assert "encrypted" in next(iter(found))


def test_links_in_a_tar_are_named(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        info = tarfile.TarInfo("link")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(info)
    found = members(put(tmp_path, packed.getvalue()), budget(), tmp_path)
    assert "no plain file" in next(iter(found))


def test_names_of_a_tar_that_leave_the_folder_or_come_twice_are_told(tmp_path: Path) -> None:
    found = members(put(tmp_path, tarred({"../x": CONTENT, "/y": CONTENT})), budget(), tmp_path)
    assert [rule for rule in found.values() if isinstance(rule, str)] == ["archive-path"] * 2
    twice = tarred({"a": CONTENT})[:2048].rstrip(b"\0")
    twice += bytes(-len(twice) % 512)
    found = members(put(tmp_path, twice * 2 + bytes(1024)), budget(), tmp_path)
    assert "archive-ambiguous" in found.values()


def test_members_behind_the_end_of_a_tar_are_told(tmp_path: Path) -> None:
    found = members(put(tmp_path, PACKED["tar"] + tarred({"hidden": CONTENT})), budget(), tmp_path)
    assert "archive-ambiguous" in found.values()


def test_a_header_of_a_tar_is_not_read_into_memory_whatever_its_length(tmp_path: Path) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 8 << 20
    path = put(tmp_path, header.tobuf() + bytes(8 << 20) + bytes(1024))
    with pytest.raises(UnreadableError, match="8388608 bytes"):
        members(path, budget(), tmp_path)


def test_a_full_disk_is_not_the_archives_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def write(self, _: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("modelctl.scan.content.tempfile.TemporaryFile", lambda **_: Full())
    packed = Packed(lambda: io.BytesIO(PACKED["zip"]))
    exhaust(packed.measure(lambda _: None))
    with pytest.raises(CannotDecideError, match="No space left"):
        list(unpack(packed, "zip", budget=budget(), scratch=tmp_path))


def test_a_zip_inside_a_stream_is_unpacked_to_be_read_here_and_there(tmp_path: Path) -> None:
    packed = Packed(lambda: io.BytesIO(PACKED["zip"]))
    exhaust(packed.measure(lambda _: None))
    assert identify(packed) == "zip"
    (member,) = unpack(packed, "zip", budget=budget(), scratch=tmp_path)
    assert not isinstance(member, Oddity)
    assert list(tmp_path.iterdir()) == []
