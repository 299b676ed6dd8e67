"""The header parser against the cases that matter, and against the reference reader on random files."""

from __future__ import annotations

import json
import struct
import tracemalloc
from pathlib import Path

import pytest
import safetensors
from hypothesis import example, given, settings
from hypothesis import strategies as st

from modelctl.model.safetensors import DTYPE_BITS, MAX_HEADER_BYTES, Header, read_header
from tests.support.models import raw_safetensors, tiny_llama


def header_of(tmp_path: Path, content: bytes) -> Header:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    return read_header(path)


def one(dtype: object, shape: object, offsets: object) -> bytes:
    return json.dumps({"t": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}).encode()


def reference_accepts(content: bytes) -> bool:
    try:
        safetensors.deserialize(content)
    except safetensors.SafetensorError:
        return False
    return True


def test_a_real_file(tmp_path: Path) -> None:
    header = read_header(tiny_llama(tmp_path) / "model.safetensors")
    assert header.problems == ()
    assert header.metadata == {"format": "pt"}
    embedding = next(item for item in header.tensors if item.name == "model.embed_tokens.weight")
    assert (embedding.dtype, embedding.shape, embedding.elements, embedding.size_bytes) == (
        "BF16", (320, 64), 20480, 40960,
    )  # fmt: skip
    size = (tmp_path / "model.safetensors").stat().st_size
    assert header.data_start + header.tensors[-1].end == size


A, B = {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}, {"dtype": "U8", "shape": [2], "data_offsets": [2, 4]}


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", "length"),
        (b"\0\0\0", "length"),
        (raw_safetensors(b"{}", length=1 << 62), "length"),
        (raw_safetensors(b"{}", length=MAX_HEADER_BYTES + 1), "length"),
        (raw_safetensors(b"{}", length=3), "length"),
        (raw_safetensors(b""), "json"),
        (raw_safetensors(b" {}"), "json"),
        (raw_safetensors(b"{}\0\0"), "json"),
        (raw_safetensors(b"[]"), "json"),
        (raw_safetensors(b'{"\xff": 1}'), "json"),
        (
            raw_safetensors(b'{"t": ' + json.dumps(A).encode() + b', "t": ' + json.dumps(A).encode() + b"}", b"ab"),
            "json",
        ),
        (raw_safetensors(b'{"__metadata__": {"a": "1", "a": "2"}}'), "json"),
        (raw_safetensors(one("U8", [-1], [0, 1]), b"a"), "json"),
        (raw_safetensors(one("U8", [1.0], [0, 1]), b"a"), "json"),
        (raw_safetensors(b'{"t": {"dtype": "U8", "shape": [1], "data_offsets": [-0, 1]}}', b"a"), "json"),
        (raw_safetensors(b'{"__metadata__": {"a": 1}}'), "metadata"),
        (raw_safetensors(b'{"__metadata__": null}'), "metadata"),
        (raw_safetensors(one("U8", [True], [0, 1]), b"a"), "entry"),
        (raw_safetensors(one("U8", [1], [0, 1, 2]), b"a"), "entry"),
        (raw_safetensors(one("U8", 1, [0, 1]), b"a"), "entry"),
        (raw_safetensors(one("U8", [1 << 64], [0, 1]), b"a"), "entry"),
        (raw_safetensors(b'{"t": ["U8", [1], [0, 1]]}', b"a"), "entry"),
        (raw_safetensors(json.dumps({"t": A | {"more": "x"}}).encode(), b"ab"), "entry"),
        (raw_safetensors(b'{"t": null}'), "entry"),
        (raw_safetensors(one("Q4", [1], [0, 1]), b"a"), "dtype"),
        (raw_safetensors(one(["U8"], [1], [0, 1]), b"a"), "dtype"),
        (raw_safetensors(one("BF16", [1000], [0, 8]), b"\0" * 8), "size"),
        (raw_safetensors(one("U8", [1 << 33, 1 << 33], [0, 1]), b"a"), "size"),
        (raw_safetensors(one("F4", [3], [0, 2]), b"ab"), "size"),
        (raw_safetensors(one("U8", [2], [2, 0]), b"ab"), "size"),
        (raw_safetensors(json.dumps({"a": A, "b": B | {"data_offsets": [1, 3]}}).encode(), b"abc"), "overlap"),
        (raw_safetensors(json.dumps({"a": A, "b": B | {"data_offsets": [3, 5]}}).encode(), b"abcde"), "hole"),
        (raw_safetensors(json.dumps({"a": A, "b": B}).encode(), b"abc"), "past-end"),
        (raw_safetensors(json.dumps({"a": A, "b": B}).encode(), b"abcde"), "trailing-bytes"),
        (raw_safetensors(b"{}", b"x"), "trailing-bytes"),
    ],
)
def test_each_flaw_has_its_kind(tmp_path: Path, content: bytes, kind: str) -> None:
    problems = header_of(tmp_path, content).problems
    assert [problem.kind for problem in problems] == [kind]
    assert problems[0].detail


@pytest.mark.parametrize(
    "content",
    [
        raw_safetensors(one("F32", [0], [0, 0])),
        raw_safetensors(one("U8", [], [0, 1]), b"a"),
        raw_safetensors(one("U8", [0, 1 << 63, 8], [0, 0])),
        raw_safetensors(b"{}   "),
        raw_safetensors(json.dumps({"b": B, "a": A}).encode(), b"abcd"),
        raw_safetensors(one("F4", [4], [0, 2]), b"ab"),
    ],
)
def test_unusual_but_right_files_pass(tmp_path: Path, content: bytes) -> None:
    assert header_of(tmp_path, content).problems == ()
    assert reference_accepts(content)


def test_a_missing_file_is_a_problem_too(tmp_path: Path) -> None:
    assert [problem.kind for problem in read_header(tmp_path / "none").problems] == ["unreadable"]


@pytest.mark.parametrize("length", [1 << 62, MAX_HEADER_BYTES + 1, MAX_HEADER_BYTES])
def test_a_claimed_length_allocates_nothing(tmp_path: Path, length: int) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(raw_safetensors(b"{}", length=length))
    tracemalloc.start()
    try:
        assert read_header(path).problems
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


naturals = st.one_of(st.integers(0, 40), st.sampled_from([2**31, 2**63, 2**64 - 1, 2**64]))
odd = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.floats(), st.text(max_size=3), st.lists(naturals, max_size=3)
)
entries = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from([*DTYPE_BITS, "Q4"]),
        "shape": st.lists(naturals, max_size=3),
        "data_offsets": st.lists(naturals, min_size=2, max_size=2),
    }
)


@st.composite
def laid_out(draw: st.DrawFn) -> tuple[dict[str, object], bytes]:
    """Headers that are right, or nearly: one number may be off by one."""
    header: dict[str, object] = {}
    position = 0
    for name in draw(st.lists(st.text(max_size=4), unique=True, max_size=4)):
        dtype = draw(st.sampled_from(list(DTYPE_BITS)))
        shape = draw(st.lists(st.integers(0, 4), max_size=3))
        elements = 1
        for dimension in shape:
            elements *= dimension
        size = elements * DTYPE_BITS[dtype] // 8
        end = position + size + draw(st.sampled_from([0] * 15 + [1, -1]))
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [position, end]}
        position += size
    return header, b"x" * max(0, position + draw(st.sampled_from([0] * 15 + [1, -1])))


@pytest.mark.slow
@given(laid_out())
@settings(deadline=None, max_examples=150)
@example(({}, b""))
@example(({"__metadata__": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}}, b""))
def test_nearly_right_files_are_judged_as_the_reference_reader_judges_them(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[dict[str, object], bytes]
) -> None:
    header, data = case
    content = raw_safetensors(json.dumps(header).encode(), data)
    found = header_of(tmp_path_factory.getbasetemp(), content)
    assert (found.problems == ()) == reference_accepts(content), found.problems


@pytest.mark.slow
@given(st.one_of(
    st.binary(max_size=64),
    st.binary(max_size=40).map(raw_safetensors),
    st.dictionaries(st.one_of(st.text(max_size=4), st.just("__metadata__")), st.one_of(entries, odd), max_size=3).map(
        lambda value: raw_safetensors(json.dumps(value).encode(), b"x" * 8)
    ),
))  # fmt: skip
@settings(deadline=None, max_examples=200)
def test_nothing_is_accepted_that_the_reference_reader_refuses(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    found = header_of(tmp_path_factory.getbasetemp(), content)
    if not found.problems:
        assert reference_accepts(content)
        assert found.data_start == 8 + struct.unpack("<Q", content[:8])[0]
