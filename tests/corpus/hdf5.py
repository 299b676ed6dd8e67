"""A smallest HDF5 file: one empty group with an attribute, as Keras keeps a model's configuration."""

from __future__ import annotations

import struct

_NOWHERE = b"\xff" * 8
_TREE_BYTES = 24 + 33 * 8 + 32 * 8
"""A node with room for 32 children (the format's default) and none used."""
_HEAP_BYTES = 88


def hdf5(name: str, value: bytes) -> bytes:
    """An HDF5 file (superblock 0, old-style group) whose root has a text attribute of at most 60,000 bytes."""
    size = _padded(value)
    attribute = struct.pack("<BBHHH", 1, 0, len(name) + 1, 8, 8) + _padded(name.encode() + b"\0")
    attribute += b"\x13\x01\0\0" + struct.pack("<I", len(value)) + b"\x01\0\0\0\0\0\0\0" + size
    messages_size = 8 + 16 + 8 + len(attribute)
    tree = 96 + 16 + messages_size
    heap = tree + _TREE_BYTES
    end = heap + 32 + _HEAP_BYTES
    places = struct.pack("<QQ", tree, heap)
    superblock = b"\x89HDF\r\n\x1a\n" + bytes([0, 0, 0, 0, 0, 8, 8, 0]) + struct.pack("<HHI", 4, 16, 0)
    superblock += bytes(8) + _NOWHERE + struct.pack("<Q", end) + _NOWHERE
    root = struct.pack("<QQII", 0, 96, 1, 0) + places
    header = struct.pack("<BBHIII", 1, 0, 2, 1, messages_size, 0)
    messages = struct.pack("<HHI", 0x11, 16, 0) + places + struct.pack("<HHI", 0x0C, len(attribute), 0) + attribute
    node = b"TREE" + struct.pack("<BBH", 0, 0, 0) + _NOWHERE * 2
    names = b"HEAP" + bytes(4) + struct.pack("<QQQ", _HEAP_BYTES, 8, heap + 32)
    free = bytes(8) + struct.pack("<QQ", 1, _HEAP_BYTES - 8)
    return (
        superblock + root + header + messages + node.ljust(_TREE_BYTES, b"\0") + names + free.ljust(_HEAP_BYTES, b"\0")
    )


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 8)
