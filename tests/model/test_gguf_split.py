"""Parts of a model in several GGUF files are one whole, or each way in which they are not is told."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

import pytest

from modelctl.model.gguf import read_header
from modelctl.model.gguf_split import check_splits
from tests.support.gguf import entry, gguf, tensor, text


def part(
    number: int, count: int, *, tensors: int = 2, total: int | None = 6, first: int = 0, keys: bool = True
) -> bytes:
    """A part as llama.cpp writes it, with F32 tensors t<first> and so on."""
    entries = [entry("general.architecture", 8, text("llama"))] if number == 0 else []
    if keys:
        entries += [
            entry("split.no", 2, struct.pack("<H", number)), entry("split.count", 2, struct.pack("<H", count)),
        ]  # fmt: skip
    if total is not None:
        entries.append(entry("split.tensors.count", 5, struct.pack("<i", total)))
    described = [tensor(f"t{first + item}", (8,), 0, 32 * item) for item in range(tensors)]
    return gguf(entries, described, b"\1" * (32 * tensors))


def name(number: int, count: int = 3, stem: str = "m") -> str:
    return f"{stem}-{number:05}-of-{count:05}.gguf"


WHOLE = {name(number + 1): part(number, 3, first=2 * number) for number in range(3)}


def problems(folder: Path, files: Mapping[str, bytes]) -> list[tuple[str, str, str]]:
    headers = {}
    for path, content in files.items():
        location = folder / path
        location.parent.mkdir(exist_ok=True)
        location.write_bytes(content)
        headers[path] = read_header(location)
    return [(item.path, item.kind, item.detail) for item in check_splits(headers)]


@pytest.mark.parametrize(
    "files",
    [
        WHOLE,
        {f"q4/{path}": content for path, content in WHOLE.items()} | WHOLE,
        {"one.gguf": part(0, 1, total=None, keys=False)},
        {name(1, 1): part(0, 1, total=2)},
        {name(1, 1): part(0, 1, total=None, keys=False)},
        {path: content for path, content in WHOLE.items() if path != name(1)}
        | {name(1): part(0, 3, total=6, tensors=0)} | {name(2): part(1, 3, tensors=4)} | {name(3): part(2, 3, first=4)},
        {"m-1-of-3.gguf": part(0, 1, total=None, keys=False)},
    ],
    ids=["three", "two sets", "alone", "one of one", "no keys", "a first part without tensors", "another scheme"],
)  # fmt: skip
def test_what_is_whole(tmp_path: Path, files: Mapping[str, bytes]) -> None:
    assert problems(tmp_path, files) == []


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    files = {path: content for path, content in WHOLE.items() if path != name(2)}
    assert problems(tmp_path, files) == [(name(1), "missing-part", f"1 of 3 parts are not here: {name(2)}")]


def test_a_claim_of_many_parts_names_a_few(tmp_path: Path) -> None:
    [(_, kind, detail), *_] = problems(tmp_path, {name(1, 99_999): part(0, 3)})
    assert kind == "missing-part"
    assert detail.endswith("and 99993 more")
    assert len(detail) < 200


@pytest.mark.parametrize("number", [0, 4])
def test_a_part_past_the_last(tmp_path: Path, number: int) -> None:
    found = problems(tmp_path, WHOLE | {name(number): part(3, 3, first=6)})
    assert (name(number), "extra-part", f"there is no part {number} of 3") in found


@pytest.mark.parametrize(
    ("content", "detail"),
    [
        (part(2, 3, first=2), "split.no is 2, by the file's name it is 1"),
        (part(1, 2, first=2), "split.count is 2, by the file's name it is 3"),
        (part(1, 3, first=2, keys=False), "split.no is not stated, by the file's name it is 1"),
        (part(1, 3, first=2, total=7), "split.tensors.count is 7, the 3 parts hold 6 tensors"),
    ],
)
def test_a_part_that_contradicts_its_name_or_the_others(tmp_path: Path, content: bytes, detail: str) -> None:
    found = problems(tmp_path, WHOLE | {name(2): content})
    assert (name(2), "split", detail) in found
    assert {path for path, _, _ in found} == {name(2)}


def test_a_tensor_that_the_parts_lack(tmp_path: Path) -> None:
    found = problems(tmp_path, WHOLE | {name(3): part(2, 3, first=4, tensors=1)})
    assert {(kind, detail) for _, kind, detail in found} == {
        ("split", "split.tensors.count is 6, the 3 parts hold 5 tensors")
    }


def test_a_tensor_in_two_parts(tmp_path: Path) -> None:
    found = problems(tmp_path, WHOLE | {name(3): part(2, 3, first=3)})
    assert found == [(name(3), "duplicate-tensor", f"'t3' (also in {name(2)})")]


def test_a_part_under_a_name_that_loaders_do_not_follow(tmp_path: Path) -> None:
    [(path, kind, detail)] = problems(tmp_path, {"model.gguf": part(0, 3)})
    assert (path, kind) == ("model.gguf", "split")
    assert "NAME-00001-of-00003.gguf" in detail


def test_a_broken_part_is_told_once_by_its_own_problems(tmp_path: Path) -> None:
    assert problems(tmp_path, WHOLE | {name(2): WHOLE[name(2)][:-8]}) == []


@pytest.mark.slow
def test_what_the_reference_library_splits_is_whole(tmp_path: Path) -> None:
    import numpy as np
    from gguf import GGUFWriter

    writer = GGUFWriter(tmp_path / "model.gguf", "llama", split_max_tensors=2)
    for number in range(5):
        writer.add_tensor(f"t{number}", np.full((4, 8), number + 1, "float32"))
    writer.write_header_to_file(tmp_path / "model.gguf")
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    headers = {path.name: read_header(path) for path in tmp_path.glob("*.gguf")}
    assert sorted(headers) == [name(number, stem="model") for number in (1, 2, 3)]
    assert all(header.problems == () for header in headers.values())
    assert list(check_splits(headers)) == []
