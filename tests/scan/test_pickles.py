"""Pickles are walked, never loaded: every name is seen, and what can't be seen is said."""

from __future__ import annotations

import collections
import io
import pickle

import numpy as np
import pytest

from modelctl.scan.harmless import _NAMES, is_harmless
from modelctl.scan.opcodes import walk
from modelctl.scan.pickles import walk_file
from modelctl.scan.walked import Pickle
from tests.support.pickles import CALL_0, CALL_2, short_text, stack_global, tensor_pickle, through_memo


def names(content: bytes) -> list[str]:
    return [f"{item.module}.{item.name}" for found in walk_file(io.BytesIO(content)) for item in found.imports]


def first(content: bytes) -> Pickle:
    return walk_file(io.BytesIO(content))[0]


@pytest.mark.parametrize("content", [CALL_0, CALL_2, b"\x80\x00" + CALL_0, b"\x80\x01" + CALL_0, b"(" + CALL_0])
def test_a_call_is_seen_in_every_protocol(content: bytes) -> None:
    assert names(content) == ["posix.system"]
    assert not first(content).imports[0].harmless


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("pip", "main"),
        ("asyncio.unix_events", "_UnixSubprocessTransport._start"),
        ("pkgutil", "resolve_name"),
        ("torch.utils.collect_env", "run"),
        ("torch.storage", "_load_from_bytes"),
        ("collections", "OrderedDict.__init__.__globals__"),
        ("builtins", "eval"),
    ],
)
def test_gadgets_are_not_on_the_list(module: str, name: str) -> None:
    for content in (stack_global(module, name), through_memo(module, name)):
        assert names(content) == [f"{module}.{name}"]
        assert not first(content).imports[0].harmless


def test_other_opcodes_that_import() -> None:
    assert names(b"(S'true'\niposix\nsystem\n.") == ["posix.system"]
    assert names(b"\x80\x02cposix\nsystem\n)\x81.") == ["posix.system"]
    assert names(b"\x80\x02(cposix\nsystem\nU\4trueo.") == ["posix.system"]


def test_a_name_of_any_text_opcode_is_followed() -> None:
    texts = {
        b"S'posix'\n": "posix",
        b"Vposix\n": "posix",
        b"U\5posix": "posix",
        b"T\5\0\0\0posix": "posix",
        b"X\5\0\0\0posix": "posix",
        b"\x8d\5\0\0\0\0\0\0\0posix": "posix",
        b"S'p\\x6fsix'\n": "posix",
    }
    for text, module in texts.items():
        assert names(b"\x80\x04" + text + short_text("system") + b"\x93)R.") == [f"{module}.system"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x80\x04K\1K\2\x93.", "computed"),
        (b"\x80\x02\x82\1.", "extension registry"),
        (CALL_2[:-1], "the end is missing"),
        (b"\x80\x04h\7.", "nothing was kept"),
        (b"\x80\x02}\xff", "no opcode"),
        (b"\x80\x02}T\xff\xff\xff\xff.", "negative length"),
        (b"\x80\x04\x8e" + b"\xff" * 8 + b"x", "cut off"),
        (b"\x80\x02}0000.", "empty"),
        (b"\x80\x02}}tR.", "mark is missing"),
        (b"\x80\x02]]\x85R.", "a call of something that is computed"),
        (b"\x80\x04" + short_text("x" * 200) * 2 + b"\x8d\0\0\1\0\0\0\0\0" + b"x" * 65536 + b"\x93.", "computed"),
    ],
)
def test_broken_or_unknowable_pickles_say_so(content: bytes, words: str) -> None:
    assert words in (walk(io.BytesIO(content)).problem or "")


@pytest.mark.parametrize(
    "content", [b"\x80\x04K\1K\2\x93.", b"\x80\x02\x82\1.", CALL_2[:-1], b"\x80\x02" + b"N" * 20, b"\x80\x04]\x94" * 9]
)
def test_a_broken_file_that_announces_a_pickle_is_one(content: bytes) -> None:
    assert first(content).problem


@pytest.mark.parametrize("length", [b"\x80\x02]\0", b"\x80\x04X\0", b"\x80\3N\4", b"\x80\2}\1"])
def test_the_length_of_a_safetensors_header_is_no_pickle(length: bytes) -> None:
    assert walk_file(io.BytesIO(length + bytes(4) + b'{"w":{"dtype":"F32"}}' + b" " * 100)) == []


def test_a_call_before_the_break_is_still_seen() -> None:
    broken = CALL_0[:-1] + b"\xff"
    assert names(broken) == ["posix.system"]
    assert "no opcode" in (first(broken).problem or "")


def test_a_second_pickle_behind_a_harmless_one_is_seen() -> None:
    assert names(pickle.dumps([1, 2], protocol=0) + CALL_0) == ["posix.system"]
    assert names(pickle.dumps({"a": 1}) + CALL_2) == ["posix.system"]


def test_endless_imports_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelctl.scan.opcodes.MAX_IMPORTS", 1000)
    found = first(b"\x80\x02" + b"cposix\nsystem\n0" * 1001 + b"N.")
    assert "over 1000 imports" in (found.problem or "")


@pytest.mark.parametrize("limit", ["opcodes.MAX_STACK", "opcodes.MAX_MEMO"])
def test_a_limit_of_the_walk_hides_no_pickle_that_says_no_protocol(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"modelctl.scan.{limit}", 4000)
    content = b"".join(b"Np%d\n" % number for number in range(4500)) + CALL_0
    found = first(content)
    assert (found.problem or "").startswith("unread pickle")


@pytest.mark.parametrize("opcode", [b"V", b"I", b"L", b"F"])
def test_a_long_line_hides_no_call(opcode: bytes) -> None:
    assert names(opcode + b"1" * 70_000 + b"\n0" + CALL_0) == ["posix.system"]


def test_large_arguments_are_skipped_in_bounded_memory() -> None:
    content = pickle.dumps([b"x" * 50_000_000, "y" * 2_000_000, 1])
    found = first(content)
    assert (found.problem, found.imports) == (None, [])
    assert found.end == len(content)


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    "value",
    [
        collections.OrderedDict(a=1),
        {"weights": np.arange(6, dtype="float32").reshape(2, 3), "empty": np.zeros((0,))},
        {"set": {1, 2}, "bytes": b"xyz", "long": 2**100, "float": 1.5, "none": None, "text": "größe"},
        [np.float64(1.5), np.dtype("int8"), complex(1, 2), slice(1, 2), range(3)],
    ],
    ids=["ordered", "arrays", "plain", "scalars"],
)
def test_harmless_values_pass_in_every_protocol(value: object, protocol: int) -> None:
    for found in walk_file(io.BytesIO(pickle.dumps(value, protocol=protocol))):
        assert found.problem is None
        assert [item for item in found.imports if not item.harmless] == []


def test_a_torch_pickle_is_harmless() -> None:
    found = first(tensor_pickle())
    assert found.problem is None
    assert all(item.harmless for item in found.imports)
    assert len(found.imports) == 3


def test_an_old_torch_file_ends_in_raw_numbers() -> None:
    magic = pickle.dumps(0x1950A86A20F9469CFC6C, protocol=2)
    parts = [magic, pickle.dumps(1001, protocol=2), pickle.dumps({}, protocol=2), tensor_pickle(), b"\x80\x02]q\0."]
    found = walk_file(io.BytesIO(b"".join(parts) + b"\xff\0\xff\0" * 10))
    assert len(found) == 5
    assert all(item.problem is None for item in found)


def test_an_array_of_objects_is_walked_behind_its_header() -> None:
    packed = io.BytesIO()
    np.save(packed, np.array([{}], dtype=object), allow_pickle=True)
    header = packed.getvalue()[: packed.getvalue().index(b"\x80")]
    assert names(header + CALL_2) == ["posix.system"]
    plain = io.BytesIO()
    np.save(plain, np.arange(3))
    assert walk_file(io.BytesIO(plain.getvalue())) == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"class Model:\n    pass\n",
        b"cat\ndog\nRaven\n",
        b"N.",
        b"I1\n.",
        b"\x80\x02\0\0\0\0\0\0{" + b" " * 640,
        b"]\n",
        b"(c) 2026 The authors\nAll rights reserved\n",
        b'{"a": 1}',
        b"PK\3\4",
        b"GGUF" + bytes(100),
        b"0" * 1000,
    ],
)
def test_other_files_are_no_pickles(content: bytes) -> None:
    assert walk_file(io.BytesIO(content)) == []


def used(content: bytes) -> list[str]:
    """How the names that do not pass are used."""
    return [
        f"{item.how} {item.module}.{item.name}"
        for found in walk_file(io.BytesIO(content))
        for item in found.imports
        if not item.harmless
    ]


OBJECT_TYPE = b"cnumpy\ndtype\nX\2\0\0\0O8\x85R"
EVIL_STATE = b"(K\3X\1\0\0\0|NX\1\0\0\0a\x85}X\1\0\0\0a" + OBJECT_TYPE + b"K\0\x86sK\x08K\1K\0t"
"""A type of 8 bytes whose one field is an object, with flags that deny it: NumPy would take any bytes for pointers."""
VOID_TYPE = b"cnumpy\ndtype\nX\2\0\0\0V8\x85R"


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (b"cnumpy\nndarray\n(K\1\x85X\1\0\0\0OC\x08\0\0\0\0\0\0\0\0tR", "calls numpy.ndarray"),
        (b"ctorch\nTensor\n)}X\5\0\0\0cdataK\0s\x92", "calls with keyword arguments torch.Tensor"),
        (b"cbuiltins\ndict\n)}X\1\0\0\0aK\0s\x92", "calls with keyword arguments builtins.dict"),
        (b"(inumpy\nndarray\n", "calls numpy.ndarray"),
        (b"(cnumpy\nndarray\nK\1o", "calls numpy.ndarray"),
        (b"cnumpy\nndarray\nK\1\x85\x81", "calls numpy.ndarray"),
        (b"csklearn.svm._classes\nSVC\nN}X\3\0\0\0fitNs\x86b", "changes sklearn.svm._classes.SVC"),
        (
            b"ctorch._tensor\n_rebuild_from_type_v2\n(cnumpy\ndtype\ncbuiltins\nint\nX\2\0\0\0V8\x85NtR",
            "calls torch._tensor._rebuild_from_type_v2",
        ),
        (
            b"ccopyreg\n_reconstructor\n(cnumpy\ndtype\ncnumpy\ndtype\nX\2\0\0\0V8tR",
            "calls copyreg._reconstructor",
        ),
        (
            b"cnumpy.core.multiarray\nscalar\n" + OBJECT_TYPE + VOID_TYPE + b"\x86R" + EVIL_STATE + b"b",
            "calls numpy.core.multiarray.scalar",
        ),
        (VOID_TYPE + EVIL_STATE + b"b", "changes numpy.dtype"),
        (
            VOID_TYPE + b"(K\3X\1\0\0\0|NX\1\0\0\0a\x85}q\1K\x08K\1K\0tb0h\1X\1\0\0\0a" + OBJECT_TYPE + b"K\0\x86s",
            "changes numpy.dtype",
        ),
    ],
)
def test_a_harmless_name_that_is_used_as_no_writer_does(program: bytes, words: str) -> None:
    assert words in used(b"\x80\x04" + program + b".")


def test_the_fields_of_a_type_are_not_changed_behind_its_back() -> None:
    state = b"(K\3X\1\0\0\0|NX\1\0\0\0a\x85}q\1X\1\0\0\0acnumpy\ndtype\nX\2\0\0\0i8\x85Rq\2K\0\x86sK\x08K\1K\0t"
    assert used(b"\x80\x04" + VOID_TYPE + state + b"b.") == []
    later = b"b0h\1X\1\0\0\0a" + OBJECT_TYPE + b"K\0\x86s."
    assert used(b"\x80\x04" + VOID_TYPE + state + later) == ["changes numpy.dtype"]
    assert used(b"\x80\x04" + VOID_TYPE + state + b"b0h\2" + EVIL_STATE + b"b.") != []


def test_structured_and_object_arrays_pass() -> None:
    kinds = [[("a", "i4"), ("b", "U3", (2,))], [("a", object), ("b", "f8")], "M8[ns]", object, "S3", "?"]
    for kind in kinds:
        array = np.zeros(2, dtype=kind)
        for protocol in range(2, 6):
            assert used(pickle.dumps([array, array[:1]], protocol=protocol)) == []


def test_a_name_means_the_same_when_python_3_renames_those_of_python_2() -> None:
    """`find_class` maps old names to new ones for protocols 0 to 2; none may lead from a harmless to another name."""
    import _compat_pickle

    for module, names_ in _NAMES.items():
        for name in names_.split():
            new = _compat_pickle.NAME_MAPPING.get((module, name))
            if new is None:
                new = (_compat_pickle.IMPORT_MAPPING.get(module, module), name)
            assert is_harmless(*new), (module, name, new)
