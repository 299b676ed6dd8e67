"""Two models side by side: files, configuration, tokenizer, tensors and measurements.

Files are compared by their sha256, which records and folders both have. Where bytes can be read, JSON files are
compared by key and weights by the headers of safetensors files; only what differs is read. What could not be compared
is said.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from modelctl.admission.report import Report
from modelctl.checks.base import Measurement
from modelctl.errors import InputError, ModelctlError
from modelctl.model.safetensors import LENGTH_BYTES, MAX_HEADER_BYTES, TensorInfo, parse_header
from modelctl.model.strict_json import Json, parse_object
from modelctl.model.tree import FileEntry

CONFIGS = ("config.json", "generation_config.json", "quantize_config.json", "adapter_config.json")
TOKENIZER_CONFIGS = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
TOKENIZER_FILES = (*TOKENIZER_CONFIGS, "tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "merges.txt",
                   "chat_template.jinja")  # fmt: skip
MAX_CONFIG_BYTES = 4 << 20
Read = Callable[[str, int, int], bytes]
"""Path, offset and length to bytes. Raises `ModelctlError` or `OSError` when they can't be had."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two. Without `read` only what records say is compared."""

    label: str
    files: Mapping[str, FileEntry]
    facts: Mapping[str, str] = field(default_factory=dict)
    """What a release says of itself: licence, source, policy, quantisation; a folder says nothing."""
    report: Report | None = None
    read: Read | None = None


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A value on both sides; None where one has none."""

    name: str
    a: str | None
    b: str | None


@dataclass(frozen=True, kw_only=True)
class Difference:
    """What differs. Lists are sorted by name and hold no equal values, except `measurements`."""

    facts: tuple[Pair, ...]
    files: tuple[Pair, ...]
    """Sizes in bytes and the beginning of the sha256."""
    equal_files: int
    config: tuple[Pair, ...]
    """`file: dotted.key` and JSON values."""
    tokenizer: tuple[Pair, ...]
    tensors: tuple[Pair, ...]
    """dtype and shape."""
    equal_tensors: int | None
    """Tensors with the same dtype and shape in files that differ; None when they were not compared."""
    measurements: tuple[Pair, ...]
    """All that both or either have, equal ones too; empty unless both have a report."""
    not_compared: tuple[str, ...]
    """What could not be looked at, and why."""

    @property
    def same(self) -> bool:
        """The same bytes."""
        return not self.files


def compare_sides(a: Side, b: Side) -> Difference:
    """Compare two models. What can't be read becomes a line in `not_compared`; nothing of a file's content raises."""
    notes: list[str] = []
    changed = {path for path in a.files.keys() | b.files.keys() if not _equal(a.files.get(path), b.files.get(path))}
    tensors, equal_tensors = _tensors(a, b, changed, notes)
    return Difference(
        facts=_pairs(a.facts, b.facts) if a.facts and b.facts else (),
        files=_pairs(
            {path: _described(a.files[path]) for path in changed & a.files.keys()},
            {path: _described(b.files[path]) for path in changed & b.files.keys()},
        ),
        equal_files=len((a.files.keys() & b.files.keys()) - changed),
        config=_keys(a, b, [path for path in CONFIGS if path in changed], notes),
        tokenizer=(
            *_keys(a, b, [path for path in TOKENIZER_CONFIGS if path in changed], notes),
            *_whole(a, b, [path for path in TOKENIZER_FILES if path in changed and path not in TOKENIZER_CONFIGS]),
        ),
        tensors=tensors,
        equal_tensors=equal_tensors,
        measurements=_measurements(a.report, b.report),
        not_compared=tuple(dict.fromkeys(notes)),
    )


def _equal(one: FileEntry | None, other: FileEntry | None) -> bool:
    return one is not None and other is not None and one.sha256 == other.sha256


def _described(entry: FileEntry) -> str:
    return f"{entry.size_bytes} bytes, sha256 {entry.sha256[:12]}…"


def _pairs(a: Mapping[str, str], b: Mapping[str, str]) -> tuple[Pair, ...]:
    names = sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name))
    return tuple(Pair(name=name, a=a.get(name), b=b.get(name)) for name in names)


def _whole(a: Side, b: Side, paths: Iterable[str]) -> tuple[Pair, ...]:
    def said(side: Side, path: str) -> str | None:
        return _described(side.files[path]) if path in side.files else None

    return tuple(Pair(name=path, a=said(a, path), b=said(b, path)) for path in paths)


def _keys(a: Side, b: Side, paths: Iterable[str], notes: list[str]) -> tuple[Pair, ...]:
    found: list[Pair] = []
    for path in paths:
        one, other = _json(a, path, notes), _json(b, path, notes)
        if one is not None and other is not None:
            found += [Pair(name=f"{path}: {pair.name}", a=pair.a, b=pair.b) for pair in _pairs(one, other)]
    return tuple(found)


def _json(side: Side, path: str, notes: list[str]) -> dict[str, str] | None:
    """A JSON file's values by dotted key; {} when the side has no such file, None when it can't be read."""
    entry = side.files.get(path)
    if entry is None:
        return {}
    if entry.size_bytes > MAX_CONFIG_BYTES:
        notes.append(f"{path} of {side.label}: {entry.size_bytes} bytes are no configuration")
        return None
    content = _bytes(side, path, 0, entry.size_bytes, notes)
    if content is None:
        return None
    try:
        values = parse_object(content, origin=path)
    except InputError as error:
        notes.append(f"{path} of {side.label}: {error.message}")
        return None
    return dict(_flat(values, ""))


def _flat(value: Json, prefix: str) -> Iterable[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _flat(item, f"{prefix}.{_shown(key)}" if prefix else _shown(key))
    else:
        yield prefix, _shown(value if isinstance(value, str) else repr(value))


def _shown(text: str) -> str:
    """One printable line: what a model's files say may be anything."""
    printable = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return printable if len(printable) <= 120 else printable[:119] + "…"


def _tensors(a: Side, b: Side, changed: set[str], notes: list[str]) -> tuple[tuple[Pair, ...], int | None]:
    paths = sorted(path for path in changed if path.endswith(".safetensors"))
    found: list[dict[str, str]] = []
    for side in (a, b):
        tensors: dict[str, str] = {}
        for path in paths:
            if path in side.files:
                header = _header(side, side.files[path], notes)
                if header is None:
                    return (), None
                tensors |= {_shown(item.name): f"{item.dtype} {list(item.shape)}" for item in header}
        found.append(tensors)
    equal = sum(1 for name in found[0].keys() & found[1].keys() if found[0][name] == found[1][name])
    return _pairs(*found), equal


def _header(side: Side, entry: FileEntry, notes: list[str]) -> tuple[TensorInfo, ...] | None:
    prefix = _bytes(side, entry.path, 0, LENGTH_BYTES, notes)
    if prefix is None:
        return None
    length = struct.unpack("<Q", prefix)[0] if len(prefix) == LENGTH_BYTES else -1
    if not 0 <= length <= min(MAX_HEADER_BYTES, entry.size_bytes - LENGTH_BYTES):
        notes.append(f"{entry.path} of {side.label}: no safetensors header")
        return None
    content = _bytes(side, entry.path, LENGTH_BYTES, length, notes)
    if content is None:
        return None
    header = parse_header(content, data_bytes=entry.size_bytes - LENGTH_BYTES - length)
    if header.problems:
        notes.append(f"{entry.path} of {side.label}: {header.problems[0].detail}")
        return None
    return header.tensors


def _bytes(side: Side, path: str, offset: int, length: int, notes: list[str]) -> bytes | None:
    if side.read is None:
        notes.append(f"what is inside the files of {side.label}: its bytes are not at hand")
        return None
    try:
        return side.read(path, offset, length)
    except (ModelctlError, OSError) as error:
        notes.append(f"what is inside the files of {side.label}: {error}")
        return None


def _measurements(a: Report | None, b: Report | None) -> tuple[Pair, ...]:
    if a is None or b is None:
        return ()
    one, other = _by_name(a), _by_name(b)
    names = list(dict.fromkeys([*one, *other]))
    return tuple(Pair(name=name, a=one.get(name), b=other.get(name)) for name in names)


def _by_name(report: Report) -> dict[str, str]:
    """Every figure; its parameters are part of the name only where a check has the figure more than once."""
    found: dict[str, str] = {}
    for check in report.checks:
        found[check.id] = check.outcome
        names = [item.name for item in check.measurements]
        for item in check.measurements:
            parameters = ", ".join(f"{key} {value}" for key, value in sorted(item.parameters.items()))
            several = names.count(item.name) > 1 and parameters
            found[f"{check.id}: {item.name}" + (f" ({parameters})" if several else "")] = _figure(item)
    return found


def _figure(item: Measurement) -> str:
    value = f"{item.value:g}" if isinstance(item.value, float) else str(item.value)
    return f"{value} {item.unit}".rstrip()
