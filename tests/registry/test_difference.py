"""Two models side by side: only what differs is read, and what could not be compared is said."""

from __future__ import annotations

import json
import struct
from dataclasses import replace

import pytest

from modelctl.checks.base import Measurement
from modelctl.errors import ModelctlError
from modelctl.registry.difference import Difference, Pair, Side, compare_sides
from tests.support.bucket import entry_of
from tests.support.reports import a_check, a_report


def safetensors(**tensors: tuple[str, list[int]]) -> bytes:
    """A file of zeros: name to dtype (F32 or I32) and shape."""
    header, end = {}, 0
    for name, (dtype, shape) in tensors.items():
        size = 4
        for dimension in shape:
            size *= dimension
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    content = json.dumps(header).encode()
    return struct.pack("<Q", len(content)) + content + bytes(end)


BASE = {
    "config.json": b'{"hidden_size": 8, "rope": {"theta": 10000.0}, "dtype": "bf16"}',
    "tokenizer.json": b"{}",
    "tokenizer_config.json": b'{"eos_token": "</s>"}',
    "model-1.safetensors": safetensors(a=("F32", [2, 2]), b=("F32", [2])),
    "model-2.safetensors": safetensors(c=("F32", [1])),
}
OTHER = {
    **BASE,
    "config.json": b'{"hidden_size": 8, "rope": {"theta": 50000.0}, "quantization_config": {"bits": 4}}',
    "tokenizer_config.json": b'{"eos_token": "<|end|>"}',
    "tokenizer.json": b"{ }",
    "model-1.safetensors": safetensors(a=("I32", [1, 2]), b=("F32", [2]), d=("F32", [1])),
    "extra.txt": b"x",
}


def side(files: dict[str, bytes], label: str = "x", read: list[tuple[str, int]] | None = None) -> Side:
    def reader(path: str, offset: int, length: int) -> bytes:
        if read is not None:
            read.append((path, length))
        return files[path][offset : offset + length]

    return Side(label=label, files={path: entry_of(path, content) for path, content in files.items()}, read=reader)


def names(pairs: tuple[Pair, ...]) -> dict[str, tuple[str | None, str | None]]:
    return {pair.name: (pair.a, pair.b) for pair in pairs}


@pytest.fixture
def found() -> Difference:
    return compare_sides(side(BASE), side(OTHER))


def test_the_same_bytes_are_read_by_nobody() -> None:
    read: list[tuple[str, int]] = []
    found = compare_sides(side(BASE, read=read), side(dict(BASE), read=read))
    assert (found.same, found.equal_files, found.not_compared, read) == (True, 5, (), [])


def test_keys_of_configurations(found: Difference) -> None:
    assert names(found.config) == {
        "config.json: dtype": ("bf16", None),
        "config.json: quantization_config.bits": (None, "4"),
        "config.json: rope.theta": ("10000.0", "50000.0"),
    }
    tokenizer = names(found.tokenizer)
    assert tokenizer["tokenizer_config.json: eos_token"] == ("</s>", "<|end|>")
    assert tokenizer["tokenizer.json"][0] != tokenizer["tokenizer.json"][1]


def test_tensors_by_name_type_and_shape(found: Difference) -> None:
    assert names(found.tensors) == {"a": ("F32 [2, 2]", "I32 [1, 2]"), "d": (None, "F32 [1]")}
    assert found.equal_tensors == 1


def test_of_weights_only_headers_are_read_and_only_of_files_that_differ() -> None:
    read: list[tuple[str, int]] = []
    compare_sides(side(BASE), side(OTHER, read=read))
    assert not [item for item in read if item[0] == "model-2.safetensors"]
    assert sum(length for path, length in read if path == "model-1.safetensors") < len(OTHER["model-1.safetensors"])


def test_files_by_their_hash(found: Difference) -> None:
    assert "extra.txt" in names(found.files)
    assert names(found.files)["extra.txt"][0] is None
    assert found.equal_files == 1


def test_measurements_stand_side_by_side() -> None:
    check = a_check()
    several = tuple(
        Measurement(name="ttft", value=value, unit="s", parameters={"streams": streams})
        for streams, value in ((1, 0.1), (8, 0.25))
    )
    one = a_report(replace(check, measurements=(*check.measurements, *several)))
    other = a_report(replace(check, measurements=(several[0],)))
    found = compare_sides(replace(side(BASE), report=one), replace(side(BASE), report=other))
    assert names(found.measurements) == {
        "integrity": ("passed", "passed"),
        "integrity: bytes": ("1234 B", None),
        "integrity: ttft (streams 1)": ("0.1 s", None),
        "integrity: ttft (streams 8)": ("0.25 s", None),
        "integrity: ttft": (None, "0.1 s"),
    }


@pytest.mark.parametrize(
    ("path", "content", "words"),
    [
        ("config.json", b"[1, 2]", "wanted an object"),
        ("config.json", b"{" * 100_000, "config.json of x"),
        ("model-1.safetensors", b"short", "no safetensors header"),
        ("model-1.safetensors", struct.pack("<Q", 1 << 60) + b"{}", "no safetensors header"),
        ("model-1.safetensors", struct.pack("<Q", 2) + b"{}x", "belong to none"),
    ],
)
def test_files_that_are_not_what_they_claim_raise_nothing(path: str, content: bytes, words: str) -> None:
    found = compare_sides(side(BASE), side({**OTHER, path: content}))
    assert any(words in note for note in found.not_compared)


def test_bytes_that_can_not_be_had_are_said_once() -> None:
    def gone(_path: str, _offset: int, _length: int) -> bytes:
        raise ModelctlError("the store is away")

    found = compare_sides(side(BASE), replace(side(OTHER), read=gone, label="y"))
    assert found.not_compared == ("what is inside the files of y: the store is away",)
    assert (found.equal_tensors, found.config) == (None, ())
    offline = compare_sides(side(BASE), replace(side(OTHER), read=None, label="y"))
    assert offline.not_compared == ("what is inside the files of y: its bytes are not at hand",)


def test_what_a_file_says_can_not_play_with_the_terminal() -> None:
    hostile = side({**BASE, "config.json": b'{"a\\u001b[2J": "b\\u202e\\n"}'})
    found = compare_sides(side(BASE), hostile)
    assert all((pair.name + (pair.b or "")).isprintable() for pair in found.config)
