"""What a file shows when it is looked into, on every level, without clamd."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from modelctl.scan.inside import Depth, Examined, look_inside
from tests.scan.test_containers import tarred, zipped
from tests.support.pickles import CALL_2, stack_global, tensor_pickle, torch_written

DEPTH = Depth(max_depth=4, max_members=1000, max_unpacked_bytes=1 << 30, max_ratio=20)


def problems(tmp_path: Path, content: bytes, *, name: str = "model.bin", depth: Depth = DEPTH) -> list[tuple[str, str]]:
    """(rule, where) of all problems but that it is a pickle."""
    path = tmp_path / name
    path.write_bytes(content)
    examined = Examined(path=name)
    (tmp_path / "scratch").mkdir(exist_ok=True)
    look_inside(path, examined, depth=depth, scratch=tmp_path / "scratch")
    assert list((tmp_path / "scratch").iterdir()) == []
    return [(item.rule, item.where) for item in examined.problems if item.rule != "pickle"]


def rules(tmp_path: Path, content: bytes, *, name: str = "model.bin") -> set[str]:
    return {rule for rule, _ in problems(tmp_path, content, name=name)}


def test_a_torch_file_is_clean_and_a_call_in_any_member_is_named(tmp_path: Path) -> None:
    members = {"data.pkl": tensor_pickle(), "data/0": bytes(4), "version": b"3\n"}
    assert problems(tmp_path, torch_written(members)) == []
    found = problems(tmp_path, torch_written({**members, "data/1": CALL_2}))
    assert found == [("pickle-import", "model.bin!archive/data/1")]


def test_a_call_is_found_in_archives_inside_archives(tmp_path: Path) -> None:
    inner = gzip.compress(zipped({"deep": lzma.compress(CALL_2)}), mtime=0)
    (found,) = problems(tmp_path, tarred({"x": inner}))
    assert found == ("pickle-import", "model.bin!x!content!deep!content")


def test_nesting_has_an_end(tmp_path: Path) -> None:
    content = CALL_2
    for _ in range(6):
        content = gzip.compress(content, mtime=0)
    assert rules(tmp_path, content) == {"archive-bomb"}


def test_reasons_to_refuse_have_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelctl.scan.inside.MAX_PROBLEMS", 3)
    found = problems(tmp_path, zipped({str(number): b"\x7fELF" for number in range(9)}))
    assert [rule for rule, _ in found] == ["program"] * 3 + ["archive-bomb"]


def test_the_pickle_of_a_member_with_a_wrong_checksum_is_still_named(tmp_path: Path) -> None:
    content = bytearray(zipped({"data.pkl": CALL_2 + bytes(100)}))
    content[content.index(b"PK\1\2") + 16] ^= 1
    content[14] ^= 1
    assert rules(tmp_path, bytes(content)) == {"archive", "pickle-import"}


def test_large_packed_pickles_are_walked_without_temporary_space(tmp_path: Path) -> None:
    value = [os.urandom(300_000), "x" * 100_000]
    content = gzip.compress(pickle.dumps(value)[:-1] + stack_global("posix", "system")[2:])
    assert rules(tmp_path, content) == {"pickle-import"}


def test_arrays_of_objects_and_headers_that_are_none(tmp_path: Path) -> None:
    packed = io.BytesIO()
    np.savez(packed, a=np.arange(3), b=np.array([{}, None], dtype=object))
    assert problems(tmp_path, packed.getvalue()) == []
    plain = io.BytesIO()
    np.save(plain, np.arange(3))
    header = plain.getvalue()
    hostile = header.replace(b"'<i8'", b"'|O' ")[:128] + CALL_2
    assert rules(tmp_path, hostile) == {"pickle-import"}
    assert rules(tmp_path, header + hostile) == {"pickle-import"}
    for old, new in ((b"'<i8'", b"'xyz'"), (b"'shape'", b"'shap '"), (b"(3,)", b"f() "), (b"(3,)", b"(-1)")):
        assert rules(tmp_path, header.replace(old, new)) == {"numpy-header"}
    assert rules(tmp_path, b"\x93NUMPY\1\0\x60\x27" + b"[" * 10_080) == {"numpy-header"}


def test_an_array_is_not_longer_than_its_file(tmp_path: Path) -> None:
    for shape in ("(9,)", "(99999999999999999999999999,)"):
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
        assert rules(tmp_path, b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header) == {"numpy-header"}


def test_a_storage_in_a_torch_tar_hides_no_pickle(tmp_path: Path) -> None:
    def dumped(value: object) -> bytes:
        return pickle.dumps(value, protocol=2)

    entry = b"\x80\x02(K\1X\3\0\0\0cpuctorch\nFloatStorage\nt."
    storages = dumped(1) + entry + struct.pack("<q2f", 2, 1.0, 2.0)
    tensor = b"\x80\x02K\1K\1ctorch\nFloatTensor\n\x87."
    tensors = dumped(1) + tensor + struct.pack("<2l5q", 2, 0, 1, 2, 2, 1, 0)
    members = {"pickle": tensor_pickle(), "storages": storages + dumped([]), "tensors": tensors}
    found = rules(tmp_path, tarred(members))
    assert found == {"pickle-import"}  # torch.FloatTensor is on no list; the rest is walked
    hostile = {**members, "storages": storages + CALL_2}
    assert ("pickle-import", "model.bin!storages") in problems(tmp_path, tarred(hostile))


@pytest.mark.parametrize(
    ("layer", "rule"),
    [
        ({"class_name": "Lambda", "config": {}}, "keras-lambda"),
        ({"class_name": "TorchModuleWrapper", "module": "keras.layers", "config": {}}, "keras-lambda"),
        ({"class_name": "TFOpLambda", "config": {"function": "io.write_file"}}, "keras-lambda"),
        ({"class_name": "Popen", "module": "subprocess", "config": {}}, "keras-import"),
        ({"class_name": "function", "module": "builtins", "config": "exec"}, "keras-import"),
        ({"class_name": "function", "module": "keras.utils", "config": "get_file"}, "keras-import"),
        ({"class_name": "X", "registered_name": "Package>X", "module": None, "config": {}}, "keras-import"),
        ({"class_name": "StringLookup", "config": {"vocabulary": "/etc/passwd"}}, "keras-import"),
    ],
)
def test_keras_models_that_bring_or_name_code(tmp_path: Path, layer: dict[str, object], rule: str) -> None:
    model = {"class_name": "Sequential", "module": "keras", "config": {"layers": [layer]}}
    text = json.dumps(model).replace("Lambda", "L\\u0061mbda").encode()
    archive = zipped({"metadata.json": b"{}", "config.json": text, "model.weights.h5": b"\x89HDF\r\n\x1a\n"})
    assert rules(tmp_path, archive, name="m.keras") == {rule}
    assert rules(tmp_path, text, name="model.json") == {rule}
    hdf5 = b"\x89HDF\r\n\x1a\n" + os.urandom(3000) + b"model_config\0" + b'{"' + bytes(9) + text + bytes(100)
    assert rules(tmp_path, hdf5, name="m.h5") == {rule}
    assert rules(tmp_path, bytes(1024) + hdf5, name="m.h5") == {rule}
    utf16 = zipped({"metadata.json": b"{}", "config.json": json.dumps(model).encode("utf-16")})
    assert rules(tmp_path, utf16, name="m.keras") == {rule}


def test_keras_models_of_its_own_layers_are_clean(tmp_path: Path) -> None:
    layers = [
        {"class_name": "Dense", "module": "keras.layers", "registered_name": None, "config": {
            "activation": {"class_name": "function", "module": "builtins", "config": "relu"},
            "kernel_initializer": {"class_name": "Zeros", "module": "keras.initializers", "config": {}}}},
        {"class_name": "Gelu", "module": "keras.src.ops.nn", "registered_name": "Gelu", "config": {}},
        {"class_name": "TFOpLambda", "config": {"function": "math.multiply"}},
    ]  # fmt: skip
    model = {"class_name": "Functional", "module": "keras.src.models.functional", "config": {"layers": layers}}
    assert problems(tmp_path, zipped({"metadata.json": b"{}", "config.json": json.dumps(model).encode()})) == []
    assert problems(tmp_path, json.dumps({"class_name": "not Keras", "x": {"class_name": "Lambda"}}).encode()) == []


def test_a_keras_model_that_can_not_be_read_is_unjudged(tmp_path: Path) -> None:
    assert rules(tmp_path, zipped({"config.json": b'{"class_name": "Sequential", ' + b'"x": [' * 5})) == {
        "keras-unreadable"
    }
    assert rules(tmp_path, b"\x89HDF\r\n\x1a\n" + b"model_config\0" + bytes(500)) == {"keras-unreadable"}
    assert rules(tmp_path, b"\x89HDF\r\n\x1a\n" + b'{"a":' * 100_000) == {"keras-unreadable"}


def test_json_that_is_too_long_to_be_read_is_unjudged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelctl.scan.hdf5.MAX_OBJECT_BYTES", 4 << 10)
    decoy, hidden = b'{"class_name": "Sequential"}', b'{"' + b"x" * 9000 + b'": {"class_name": "Lambda"}}'
    assert rules(tmp_path, b"\x89HDF\r\n\x1a\n" + b"model_config\0" + decoy + hidden) == {"keras-unreadable"}


def test_torchscript_is_a_program(tmp_path: Path) -> None:
    found = rules(tmp_path, torch_written({"data.pkl": tensor_pickle(), "code/__torch__.py": b"def f(): pass"}))
    assert found == {"torchscript"}


def field(number: int, content: bytes) -> bytes:
    length, coded = len(content), b""
    while length > 127:
        coded, length = coded + bytes([length & 127 | 128]), length >> 7
    return bytes([number << 3 | 2]) + coded + bytes([length]) + content


def test_a_tensorflow_graph_is_a_program(tmp_path: Path) -> None:
    def node(operation: bytes) -> bytes:
        return field(1, b"name") + field(2, operation)

    functions = field(2, field(1, field(3, node(b"PyFunc"))))
    graph = field(1, node(b"Const")) + field(1, node(b"ReadFile")) + functions
    saved = b"\x08\x01" + field(2, field(1, b"") + field(2, graph))
    for content in (graph, saved):
        path = tmp_path / "saved_model.pb"
        path.write_bytes(content)
        examined = Examined(path="saved_model.pb")
        look_inside(path, examined, depth=DEPTH, scratch=tmp_path)
        (problem,) = examined.problems
        assert problem.rule == "tensorflow-graph"
        assert "PyFunc, ReadFile" in problem.detail
    assert rules(tmp_path, field(1, field(1, b"\xe2\x96\x81the") + b"\x15\0\0\0\0"), name="tokenizer.model") == set()


def test_order_and_unknown_groups_hide_no_graph(tmp_path: Path) -> None:
    node = field(5, b"") + field(2, b"ReadFile") + field(1, b"name")
    graph = field(1, field(1, b"call") + field(2, b"__inference_1")) + field(1, node)
    group = b"\x7b\x08\x01\x7c"
    for content in (graph, field(2, field(2, graph)) + b"\x08\x01", group + graph, group + field(2, field(2, graph))):
        assert rules(tmp_path, content, name="saved_model.pb") == {"tensorflow-graph"}
    text = b"meta_graphs { graph_def { node { name: 'a'\n op : 'ReadFile' } } }"
    assert rules(tmp_path, text, name="saved_model.pbtxt") == {"tensorflow-graph"}
    assert rules(tmp_path, b"platform: 'onnxruntime_onnx'", name="config.pbtxt") == set()


@pytest.mark.parametrize(
    ("path", "refused"),
    [("../../etc/passwd", 1), ("/etc/passwd", 1), ("a/" * 4000 + "../" * 4002, 1), ("weights/w.data", 0)],
)
def test_an_onnx_model_reads_no_file_outside_of_its_folder(tmp_path: Path, path: str, refused: int) -> None:
    entry = field(1, b"location") + field(2, path.encode())
    tensor = b"\x08\x01" + field(8, b"w") + field(13, entry)
    inner = field(1, field(5, field(1, b"then") + field(6, field(5, tensor))))
    for graph in (field(5, tensor), inner):
        model = b"\x08\x08" + field(2, b"producer") + field(7, graph)
        assert rules(tmp_path, model, name="m.onnx") == ({"onnx-path"} if refused else set())
    assert rules(tmp_path, model[:-1], name="m.onnx") == {"onnx-path"}


def test_machine_code_in_an_archive_is_told(tmp_path: Path) -> None:
    assert rules(tmp_path, zipped({"lib": b"\x7fELF" + bytes(100)})) == {"program"}
    windows = b"MZ" + bytes(58) + struct.pack("<L", 64) + b"PE\0\0"
    assert rules(tmp_path, zipped({"lib": windows})) == {"program"}


def test_a_member_that_is_stored_takes_no_temporary_space_and_little_memory(tmp_path: Path) -> None:
    """The archive is a file with a hole; 100 MiB of it would be seen in the scratch folder or the budget of memory."""
    import tracemalloc

    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w") as archive, archive.open("a/data/0", "w") as member:
        for _ in range(32):
            member.write(bytes(1 << 20))
    (tmp_path / "none").mkdir(mode=0o500)
    tracemalloc.start()
    examined = Examined(path="model.pt")
    look_inside(path, examined, depth=DEPTH, scratch=tmp_path / "missing", read=lambda stream, _: stream.read(1000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert examined.problems == []
    assert examined.unpacked_bytes == 32 << 20
    assert peak < 8 << 20
