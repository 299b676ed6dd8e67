"""The targets by name, with how many cases of each the quick suite has time for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from tests.fuzz import folders, formats
from tests.fuzz.runner import Case


class Target(NamedTuple):
    """A case to draw, how many of it the suite runs (half a second's worth when unmarked), and its marks."""

    case: Case
    cases: int
    marks: tuple[pytest.MarkDecorator, ...] = ()


TARGETS: Mapping[str, Target] = {
    "safetensors": Target(formats.safetensors_header, 600),
    "json": Target(formats.json_document, 600),
    "index": Target(folders.shard_index, 100),
    "gguf": Target(formats.gguf_header, 400),
    "gguf-reference": Target(formats.gguf_reference, 2000, (pytest.mark.slow,)),
    "pickle": Target(formats.pickle_program, 600),
    "archive": Target(formats.archive, 300),
    "inside": Target(formats.inside, 150),
    "upstream": Target(folders.against_upstream, 60),
    "folder": Target(folders.without_upstream, 60),
}
