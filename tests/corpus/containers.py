"""Containers written byte by byte, so that each may lie as a writer of the format never would."""

from __future__ import annotations

import io
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Mapping

NUMPY_MAGIC = b"\x93NUMPY\x01\x00"


def zipped(members: Mapping[str, bytes], *, packed: bool = False) -> bytes:
    """A zip archive of these members, with one date for all."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
            archive.writestr(info, data)
    return out.getvalue()


def torch_file(pickle: bytes, *, storages: int = 1, packed: bool = False) -> bytes:
    """What torch.save writes since 1.6, with this many storages of 64 bytes."""
    members = {"archive/data.pkl": pickle, "archive/byteorder": b"little"}
    members |= {f"archive/data/{number}": bytes(64) for number in range(storages)}
    return zipped(members | {"archive/version": b"3\n"}, packed=packed)


def tarred(members: Mapping[str, bytes]) -> bytes:
    """A tar archive of these members."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def numpy_array(descr: str, shape: tuple[int, ...], data: bytes) -> bytes:
    """A .npy file of version 1.0; `descr` is the header's type, as Python text."""
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape!r}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return NUMPY_MAGIC + struct.pack("<H", len(header)) + header + data


def set_flags(archive: bytes, flags: int) -> bytes:
    """Set the flag bits of every entry, in the local headers and the directory."""
    out = bytearray(archive)
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = out.find(signature)
        while at >= 0:
            out[at + offset : at + offset + 2] = struct.pack("<H", flags)
            at = out.find(signature, at + 4)
    return bytes(out)


def renamed_locally(archive: bytes, old: bytes, new: bytes) -> bytes:
    """Another name of the same length in the local header only; the directory keeps the old one."""
    assert len(old) == len(new)
    return archive.replace(old, new, 1)


def wrong_crc(archive: bytes, member: bytes) -> bytes:
    """Another checksum for one member, in the directory and in its local header."""
    out = bytearray(archive)
    local = out.find(member) - 30
    at = out.rfind(b"PK\x01\x02", 0, out.rfind(member))
    for place in (local + 14, at + 16):
        out[place : place + 4] = struct.pack("<I", struct.unpack("<I", out[place : place + 4])[0] ^ 0xFFFF)
    return bytes(out)


def seven_zip(data: bytes) -> bytes:
    """A 7z archive with one stored file named `data.bin` (7zFormat.txt of the LZMA SDK: copy coder, plain header)."""
    name = "data.bin".encode("utf-16le") + b"\0\0"
    size = _number(len(data))
    streams = b"\x06" + _number(0) + b"\x01\x09" + size + b"\x00"
    folder = b"\x07\x0b\x01\x00\x01\x01\x00\x0c" + size + b"\x0a\x01" + struct.pack("<I", zlib.crc32(data)) + b"\x00"
    folder += b"\x08\x00"
    files = b"\x05\x01\x11" + _number(len(name) + 1) + b"\x00" + name + b"\x00"
    header = b"\x01\x04" + streams + folder + b"\x00" + files + b"\x00"
    start = struct.pack("<QQI", len(data), len(header), zlib.crc32(header))
    return b"7z\xbc\xaf\x27\x1c\x00\x04" + struct.pack("<I", zlib.crc32(start)) + start + data + header


def _number(value: int) -> bytes:
    """7z's own number: the leading ones of the first byte count the bytes that follow."""
    if value < 0x80:
        return bytes([value])
    return bytes([0x80 | value >> 8, value & 0xFF]) if value < 0x4000 else b"\xe0" + struct.pack("<I", value)[:3]
