"""What the terminal can show: its letters, and whether colours are wanted.

One error handler words everything that an encoding lacks, so that no command can end in a UnicodeEncodeError: arrows
and marks become ASCII, letters lose their accents, the rest is a question mark. Undecodable bytes of file names are
escaped.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Mapping

HANDLER = "modelctl-plain"
ASCII = "modelctl_ascii"
"""ASCII under another name: click takes a stream in ASCII for a mistake and writes UTF-8 to it."""
_PLAIN = {
    "…": "...", "→": "->", "←": "<-", "×": "x", "·": "-", "✓": "+", "✗": "x", "–": "-", "—": "-", "±": "+/-",
    "≤": "<=", "≥": ">=", "√": "sqrt", "’": "'", "‘": "'", "“": '"', "”": '"', "•": "-", "│": "|", "─": "-", "━": "-",
    "╸": "-", "╺": "-", "█": "#", "▇": "#", "▆": "#", "▅": "#", "▄": "#", "▃": "#", "▂": "#", "▁": "_",
}  # fmt: skip


def plain(error: UnicodeError) -> tuple[str | bytes, int]:
    """What stands for the letters that an encoding lacks; for `codecs.register_error`."""
    import unicodedata

    if not isinstance(error, UnicodeEncodeError):
        raise error
    words = []
    for letter in error.object[error.start : error.end]:
        if "\udc80" <= letter <= "\udcff":
            words.append(f"\\x{ord(letter) - 0xDC00:02x}")
            continue
        bare = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
        words.append(_PLAIN.get(letter) or bare or "?")
    return "".join(words), error.end


def prepare_streams() -> None:
    """Let stdout and stderr take any text, whatever the locale."""
    codecs.register_error(HANDLER, plain)
    codecs.register(_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            ascii_only = codecs.lookup(stream.encoding).name == "ascii"
            stream.reconfigure(encoding=ASCII if ascii_only else None, errors=HANDLER)


def is_plain(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a terminal is to get neither colours nor lines that are drawn anew: NO_COLOR, or TERM is dumb."""
    return bool(environ.get("NO_COLOR")) or is_dumb(environ)


def is_dumb(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the terminal can only print one line after another."""
    return environ.get("TERM", "").lower() in ("dumb", "unknown")


def _ascii(name: str) -> codecs.CodecInfo | None:
    if name != ASCII:
        return None
    real = codecs.lookup("ascii")
    return codecs.CodecInfo(
        name=ASCII, encode=real.encode, decode=real.decode,
        incrementalencoder=real.incrementalencoder, incrementaldecoder=real.incrementaldecoder,
        streamreader=real.streamreader, streamwriter=real.streamwriter,
    )  # fmt: skip
