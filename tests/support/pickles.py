"""Hostile and harmless serialized files, built byte by byte: nothing in the tests loads them."""

from __future__ import annotations

import io
import struct
import zipfile

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
