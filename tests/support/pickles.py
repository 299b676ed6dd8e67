"""Hostile and harmless serialized files, built byte by byte: nothing in the tests loads them."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

CALL_0 = b"cposix\nsystem\n(S'true'\ntR."
"""posix.system('true') in protocol 0."""
CALL_2 = b"\x80\x02" + CALL_0


def short_text(text: str) -> bytes:
    return b"\x8c" + bytes([len(text)]) + text.encode()


def stack_global(module: str, name: str, *, protocol: int = 4) -> bytes:
    """A call of module.name() with the name taken from the stack."""
    return b"\x80" + bytes([protocol]) + short_text(module) + short_text(name) + b"\x93)R."


def through_memo(module: str, name: str) -> bytes:
    """The same with both texts kept, dropped and fetched again."""
    kept = short_text(module) + b"\x94" + b"0" + short_text(name) + b"\x94" + b"0"
    return b"\x80\x04" + kept + b"h\0h\1\x93)R."


def tensor_pickle(payload: bytes = b"") -> bytes:
    """What torch.save writes for {"w": tensor}, with `payload` put in front of the dictionary."""
    return (
        b"\x80\x02" + payload + b"}q\0X\1\0\0\0wq\1ctorch._utils\n_rebuild_tensor_v2\nq\2((X\7\0\0\0storageq\3"
        b"ctorch\nFloatStorage\nq\4X\1\0\0\x000q\5X\3\0\0\0cpuq\6K\1tq\7QK\0K\1\x85q\x08K\1\x85q\t\x89ccollections\n"
        b"OrderedDict\nq\n)Rq\x0btq\x0cRq\rs."
    )


def torch_zip(pickle: bytes, *, name: str = "archive") -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(f"{name}/data.pkl", pickle)
        archive.writestr(f"{name}/data/0", struct.pack("<f", 1.0))
        archive.writestr(f"{name}/version", "3\n")
    return packed.getvalue()


def torch_written(members: dict[str, bytes], *, name: str = "archive") -> bytes:
    """A zip as torch.save writes it: every member padded to a multiple of 64 bytes by an extra field of its header,
    checksum and sizes behind it, and both end records."""
    packed, directory = bytearray(), bytearray()
    for member, content in members.items():
        raw, crc, offset = f"{name}/{member}".encode(), zlib.crc32(content), len(packed)
        padding = -(offset + 30 + len(raw) + 4) % 64
        packed += struct.pack("<4s5H3L2H", b"PK\3\4", 0, 0x808, 0, 0, 0, 0, 0, 0, len(raw), padding + 4) + raw
        packed += b"FB" + struct.pack("<H", padding) + b"Z" * padding + content
        packed += struct.pack("<4s3L", b"PK\7\x08", crc, len(content), len(content))
        directory += struct.pack("<4s6H3L5H2L", b"PK\1\2", 0, 0, 0x808, 0, 0, 0, crc, len(content), len(content),
                                 len(raw), 0, 0, 0, 0, 0, offset) + raw  # fmt: skip
    count, start = len(members), len(packed)
    ends = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 0x31E, 45, 0, 0, count, count, len(directory), start)
    ends += struct.pack("<4sLQL", b"PK\6\7", 0, start + len(directory), 1)
    ends += struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(directory), start, 0)
    return bytes(packed + directory + ends)
