"""The EICAR anti-virus test file, which every scanner is to find and which does nothing."""

from __future__ import annotations

_PARTS = (b"EICAR", b"STANDARD", b"ANTIVIRUS", b"TEST", b"FILE!$H+H*")


def eicar() -> bytes:
    """Its 68 bytes, put together here so that no file of this project is taken for it."""
    return b"X5O!P%@AP[4\\PZX54(P^)7CC)7}$" + b"-".join(_PARTS)
