"""The chat templates in a GGUF file's metadata, read in bounded memory; the tensors are not touched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from modelctl.model.gguf_metadata import Problems, Source, read_counts, read_entries

MAX_TEMPLATE_BYTES = 4 << 20


def chat_templates(stream: BinaryIO) -> Iterator[tuple[str, str]]:
    """(key, text) of every metadata string whose key names a chat template. Raises `ValueError` for a broken file.

    What readers agree on in spite of a broken rule (two equal keys, text that is not UTF-8) is no error here.
    """
    source = Source(stream)
    counts = read_counts(source)
    for entry in read_entries(source, counts.entries, Problems(), keep_text=_names_template):
        if isinstance(entry.value, str) and _names_template(entry.key):
            if len(entry.value) > MAX_TEMPLATE_BYTES:
                raise ValueError(f"{entry.key[:80]!a}: a template of {len(entry.value)} characters")
            yield entry.key, entry.value


def _names_template(key: str) -> bool:
    return "chat_template" in key
