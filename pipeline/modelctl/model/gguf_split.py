"""The parts of one model in several GGUF files: `NAME-00001-of-00003.gguf` and so on.

Rules of llama.cpp's loader, which finds the others by the name of the first: each part states `split.no` (from 0) and
`split.count`, and these agree with its name; `split.tensors.count` is the sum over the parts; no tensor is in two.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from modelctl.model.gguf import GgufHeader

NO_KEY, COUNT_KEY, TENSORS_KEY = "split.no", "split.count", "split.tensors.count"
MAX_NAMED = 5
"""Missing parts or doubled tensors that one problem names; the rest is counted."""
_NAME = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class SplitProblem:
    """One way in which parts are not one whole."""

    path: str
    kind: str
    """One of: split, missing-part, extra-part, duplicate-tensor."""
    detail: str


def check_splits(headers: Mapping[str, GgufHeader]) -> Iterator[SplitProblem]:
    """Every problem among the GGUF files of a tree, by path. Only files without problems of their own are compared."""
    sets: dict[tuple[str, int], dict[int, str]] = defaultdict(dict)
    for path in sorted(headers):
        named = _NAME.fullmatch(path)
        if named is not None:
            sets[named["stem"], int(named["count"])][int(named["number"])] = path
        elif (count := _stated(headers[path], COUNT_KEY)) not in (None, 0, 1):
            detail = f"{COUNT_KEY} is {count}, and the name is not of the form NAME-00001-of-{_five(count)}.gguf"
            yield SplitProblem(path=path, kind="split", detail=f"{detail}: no loader finds the other parts")
    for (stem, count), parts in sets.items():
        yield from _numbers(stem, count, parts)
        whole = {number: headers[path] for number, path in parts.items() if not headers[path].problems}
        for number, header in whole.items():
            yield from _statements(parts[number], header, number, count)
        yield from _tensors(parts, whole, count)


def _numbers(stem: str, count: int, parts: Mapping[int, str]) -> Iterator[SplitProblem]:
    for number, path in parts.items():
        if not 0 < number <= count:
            yield SplitProblem(path=path, kind="extra-part", detail=f"there is no part {number} of {count}")
    lacking = count - sum(0 < number <= count for number in parts)
    if lacking:
        missing = islice((number for number in range(1, count + 1) if number not in parts), MAX_NAMED)
        names = ", ".join(f"{stem.rpartition('/')[2]}-{number:05}-of-{count:05}.gguf" for number in missing)
        more = f" and {lacking - MAX_NAMED} more" if lacking > MAX_NAMED else ""
        detail = f"{lacking} of {count} parts are not here: {names}{more}"
        yield SplitProblem(path=next(iter(parts.values())), kind="missing-part", detail=detail)


def _statements(path: str, header: GgufHeader, number: int, count: int) -> Iterator[SplitProblem]:
    if count == 1 and not {NO_KEY, COUNT_KEY} & set(header.metadata):
        return  # a whole model under a part's name: loaders read it as one
    for key, wanted in ((NO_KEY, number - 1), (COUNT_KEY, count)):
        found = header.metadata.get(key)
        if _stated(header, key) != wanted:
            detail = (
                f"{key} is {'not stated' if found is None else f'{found!a:.40}'}, by the file's name it is {wanted}"
            )
            yield SplitProblem(path=path, kind="split", detail=detail)


def _tensors(parts: Mapping[int, str], whole: Mapping[int, GgufHeader], count: int) -> Iterator[SplitProblem]:
    holders: dict[str, int] = {}
    doubled: dict[int, list[str]] = defaultdict(list)
    for number, header in whole.items():
        for tensor in header.tensors:
            if holders.setdefault(tensor.name, number) != number:
                doubled[number].append(tensor.name)
    for number, names in doubled.items():
        shown = ", ".join(f"{name!a} (also in {parts[holders[name]]})" for name in names[:MAX_NAMED])
        more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        yield SplitProblem(path=parts[number], kind="duplicate-tensor", detail=f"{shown}{more}")
    if set(whole) != set(range(1, count + 1)):
        return  # the sum is wrong because of what was said above
    total = sum(len(header.tensors) for header in whole.values())
    for number, header in whole.items():
        if TENSORS_KEY in header.metadata and _stated(header, TENSORS_KEY) != total:
            detail = f"{TENSORS_KEY} is {header.metadata[TENSORS_KEY]!a:.40}, the {count} parts hold {total} tensors"
            yield SplitProblem(path=parts[number], kind="split", detail=detail)


def _stated(header: GgufHeader, key: str) -> int | None:
    value = header.metadata.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _five(count: int | None) -> str:
    return f"{count or 0:05}"
