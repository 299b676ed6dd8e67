"""Archives are known by their bytes, unpacked within a budget, and never passed over."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from pathlib import Path

import pytest

from modelctl.errors import CannotDecideError
from modelctl.scan.containers import Budget, BudgetError, Kind, UnreadableError, identify, unpack

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
    "gzip": gzip.compress(CONTENT),
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


def members(path: Path, allowed: Budget, scratch: Path) -> dict[str, bytes | str]:
    kind = identify(path)
    assert kind is not None
    found: dict[str, bytes | str] = {}
    for member in unpack(path, kind, budget=allowed, scratch=scratch):
        if isinstance(member, UnreadableError):
            found[str(member)] = "unreadable"
        else:
            found[member.name] = member.location.read_bytes()
    return found


@pytest.mark.parametrize("kind", PACKED)
def test_every_kind_is_known_by_its_bytes_and_unpacked(tmp_path: Path, kind: Kind) -> None:
    path = put(tmp_path, PACKED[kind])
    assert identify(path) == kind
    assert list(members(path, budget(), tmp_path).values()) == [CONTENT]
    assert [item.name for item in tmp_path.iterdir()] == ["config.json"]


def test_a_zip_behind_something_else_is_a_zip(tmp_path: Path) -> None:
    path = put(tmp_path, b"{}" + bytes(100_000) + zipped({"a": CONTENT}) + b"")
    assert identify(path) == "zip"
    assert members(path, budget(), tmp_path) == {"a": CONTENT}


def test_an_old_tar_has_no_magic(tmp_path: Path) -> None:
    content = bytearray(tarred({"pickle": CONTENT}, style=tarfile.USTAR_FORMAT))
    content[257:265] = bytes(8)
    content[148:156] = b"%06o\0 " % (sum(content[:148]) + 8 * 32 + sum(content[156:512]))
    assert members(put(tmp_path, bytes(content)), budget(), tmp_path) == {"pickle": CONTENT}


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"text", bytes(2000), b"x\x9cnot zlib", b"BZhello", b"PK", b"\x5d\0\0no lzma" + bytes(50)]
)
def test_other_files_are_no_archives(tmp_path: Path, content: bytes) -> None:
    assert identify(put(tmp_path, content)) is None


@pytest.mark.parametrize("magic", [b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07\0", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18"])
def test_archives_that_are_not_opened_are_named(tmp_path: Path, magic: bytes) -> None:
    with pytest.raises(UnreadableError, match="not opened here"):
        identify(put(tmp_path, magic + bytes(100)))


@pytest.mark.parametrize("kind", PACKED)
def test_the_budget_ends_a_bomb(tmp_path: Path, kind: Kind) -> None:
    path = put(tmp_path, PACKED[kind])
    with pytest.raises(BudgetError, match="more bytes"):
        members(path, budget(unpacked_bytes=len(CONTENT) - 1), tmp_path)


def test_the_budget_counts_members(tmp_path: Path) -> None:
    path = put(tmp_path, zipped({f"{number}": b"" for number in range(11)}))
    with pytest.raises(BudgetError, match="more members"):
        members(path, budget(), tmp_path)


@pytest.mark.parametrize("kind", [kind for kind in PACKED if kind != "zip"])
def test_an_archive_that_is_cut_off_is_broken(tmp_path: Path, kind: Kind) -> None:
    path = put(tmp_path, PACKED[kind][: len(PACKED[kind]) // 2 if kind != "tar" else 700])
    with pytest.raises(UnreadableError, match="broken"):
        members(path, budget(), tmp_path)


def test_a_zip_without_its_directory_is_broken(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="broken zip"):
        members(put(tmp_path, PACKED["zip"][:60]), budget(), tmp_path)


def test_a_zip_of_a_later_format_or_with_a_nameless_member_is_broken(tmp_path: Path) -> None:
    """Python's zipfile raises NotImplementedError and IndexError for these."""
    directory = PACKED["zip"].rindex(b"PK\1\2")
    later, nameless = bytearray(PACKED["zip"]), bytearray(PACKED["zip"])
    later[directory + 6] = 84  # the version that is needed to read it
    nameless[directory + 28 : directory + 32] = b"\0\0\1\0"  # the name's one byte belongs to the extra field now
    for content in (later, nameless):
        with pytest.raises(UnreadableError, match="broken zip"):
            members(put(tmp_path, bytes(content)), budget(), tmp_path)


def test_a_wrong_checksum_names_the_member(tmp_path: Path) -> None:
    content = bytearray(zipped({"archive/data.pkl": CONTENT, "b": b"fine"}, method=zipfile.ZIP_STORED))
    content[60] ^= 1
    found = members(put(tmp_path, bytes(content)), budget(), tmp_path)
    assert found.pop("b") == b"fine"
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


def test_a_full_disk_is_not_the_archives_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        name = str(tmp_path / "full")

        def write(self, _: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("modelctl.scan.containers.tempfile.NamedTemporaryFile", lambda **_: Full())
    with pytest.raises(CannotDecideError, match="No space left"):
        members(put(tmp_path, PACKED["zip"]), budget(), tmp_path)
