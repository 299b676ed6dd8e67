"""Harmless serialized files in the layouts that joblib, NumPy, torch, Keras and ONNX write."""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from collections.abc import Iterator, Mapping

from tests.corpus.base import BYTES, GATE, Input
from tests.corpus.containers import numpy_array, tarred, torch_file, zipped
from tests.corpus.hdf5 import hdf5
from tests.corpus.streams import called, old_torch, program, text
from tests.support.pickles import tensor_pickle

GROUP = "benign files"
_NUMPY = "numpy.lib.format"
_TORCH = "torch.serialization, torch._utils"


def inputs() -> Iterator[Input]:
    """All of them."""
    yield from _torch()
    yield from _sklearn()
    yield from _arrays()
    yield from _others()


def _input(name: str, what: str, report: str, files: Mapping[str, bytes]) -> Input:
    pytorch = all(path.endswith((".bin", ".pt", ".pth")) for path in files)
    return Input(
        id=f"benign-{name}", group=GROUP, what=what, report=report, files=files, checks=GATE if pytorch else BYTES
    )  # fmt: skip


def _tensor(storage: str, shape: tuple[int, ...], key: str) -> bytes:
    """A tensor as torch.save writes it: a persistent id for the storage, then the call that puts it together."""
    elements = 1
    for size in shape:
        elements *= size
    numbers = b"".join(b"K" + bytes([size]) for size in shape)
    strides = b"".join(b"K\x01" for _ in shape)
    body = b"ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + f"ctorch\n{storage}\n".encode()
    body += text(key) + text("cpu") + b"K" + bytes([elements]) + b"tQK\x00(" + numbers + b"t(" + strides + b"t\x89"
    return body + called("collections", "OrderedDict", ()) + b"tR"


def _state(tensors: Mapping[str, bytes], *, ordered: bool = False) -> bytes:
    start = called("collections", "OrderedDict", ()) if ordered else b"}"
    items = b"".join(text(name) + tensor for name, tensor in tensors.items())
    return program(start + b"(" + items + b"u")


def _torch() -> Iterator[Input]:
    kinds = ("Float", "Half", "BFloat16", "Double", "Long", "Int", "Short", "Char", "Byte", "Bool", "ComplexFloat")
    tensors = {
        f"layer.{kind.lower()}": _tensor(f"{kind}Storage", (2,), str(number)) for number, kind in enumerate(kinds)
    }
    yield _input(
        "torch-dtypes",
        "a state dict of tensors of eleven types",
        _TORCH,
        {"pytorch_model.bin": torch_file(_state(tensors), storages=11)},
    )
    ordered = _state({"w": _tensor("FloatStorage", (2, 3), "0")}, ordered=True)
    yield _input("torch-ordered", "an ordered state dict", _TORCH, {"model.pt": torch_file(ordered)})
    empty = _state({"w": _tensor("FloatStorage", (0,), "0")})
    yield _input(
        "torch-empty", "a tensor without elements", _TORCH, {"pytorch_model.bin": torch_file(empty, storages=1)}
    )
    parameter = b"ctorch._utils\n_rebuild_parameter\n(" + _tensor("FloatStorage", (2,), "0") + b"\x88"
    parameter += called("collections", "OrderedDict", ()) + b"tR"
    yield _input("torch-parameter", "a parameter", _TORCH, {"model.pth": torch_file(_state({"w": parameter}))})
    yield _input(
        "torch-old",
        "the format of before torch 1.6",
        _TORCH,
        {
            "pytorch_model.bin": old_torch(tensor_pickle(), keys=program(b"](" + text("0") + b"e"))
            + struct.pack("<qf", 1, 1.0)
        },
    )
    yield _input(
        "torch-nothing",
        "an OrderedDict and nothing in it",
        _TORCH,
        {"model.pt": torch_file(program(called("collections", "OrderedDict", ())))},
    )
    training = program(
        b"}("
        + text("epoch")
        + b"K\x03"
        + text("model")
        + b"}("
        + text("w")
        + _tensor("FloatStorage", (2,), "0")
        + b"u"
        + text("optimizer")
        + b"}("
        + text("state")
        + b"}"
        + text("param_groups")
        + b"]u"
        + text("loss")
        + b"G"
        + struct.pack(">d", 0.5)
        + text("eval")
        + b"\x89u"
    )
    yield _input(
        "torch-training",
        "a checkpoint of a training run, with a key named eval",
        _TORCH,
        {"model.pt": torch_file(training)},
    )


def _reconstructed(module: str, descr: str, data: bytes) -> bytes:
    """An array as NumPy pickles it."""
    array = f"c{module}\n_reconstruct\n".encode() + b"(cnumpy\nndarray\nK\x00\x85C\x01btR(K\x01K\x02\x85"
    kind = (
        b"cnumpy\ndtype\n("
        + text(descr)
        + b"\x89\x88tR(K\x03"
        + text("<")
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    )
    return array + kind + b"\x89C" + bytes([len(data)]) + data + b"tb"


def _estimator(module: str, name: str, attributes: Mapping[str, bytes]) -> bytes:
    items = b"".join(text(key) + value for key, value in attributes.items())
    return f"c{module}\n{name}\n".encode() + b")\x81}(" + items + text("_sklearn_version") + text("1.5.0") + b"ub"


def _sklearn() -> Iterator[Input]:
    report = "scikit-learn docs, model persistence"
    coefficients = _reconstructed("numpy._core.multiarray", "f8", struct.pack("<2d", 0.5, -1.5))
    logistic = _estimator(
        "sklearn.linear_model._logistic",
        "LogisticRegression",
        {"C": b"G" + struct.pack(">d", 1.0), "coef_": coefficients},
    )
    yield _input(
        "logistic", "a logistic regression as joblib writes it", report, {"model.joblib": program(logistic, protocol=3)}
    )
    yield _input(
        "logistic-zlib", "the same in zlib", report, {"model.joblib": zlib.compress(program(logistic, protocol=3))}
    )
    yield _input(
        "logistic-gzip",
        "the same in gzip",
        report,
        {"model.joblib.gz": gzip.compress(program(logistic, protocol=3), mtime=0)},
    )
    scaler = _estimator("sklearn.preprocessing._data", "StandardScaler", {"mean_": coefficients, "with_mean": b"\x88"})
    steps = b"](" + text("scale") + scaler + b"\x86" + text("model") + logistic + b"\x86e"
    pipeline = _estimator("sklearn.pipeline", "Pipeline", {"steps": steps, "memory": b"N", "verbose": b"\x89"})
    yield _input(
        "pipeline", "a pipeline of a scaler and a model", report, {"pipeline.pkl": program(pipeline, protocol=3)}
    )
    old = _estimator(
        "sklearn.svm._classes", "SVC", {"dual_coef_": _reconstructed("numpy.core.multiarray", "f8", bytes(16))}
    )
    yield _input("svc-old", "a support vector machine of NumPy 1", report, {"svc.pkl": program(old, protocol=3)})
    joblib = "joblib.numpy_pickle: an array's bytes lie in the middle of the pickle"
    values = struct.pack("<2d", 0.5, -1.5)
    old = b"\x80\x03" + _wrapper(b"")
    yield _input(
        "joblib-old", "an array as joblib before 1.2 writes it", joblib, {"features.joblib": old + values + b"."}
    )
    new = b"\x80\x03" + _wrapper(text("numpy_array_alignment_bytes") + b"K\x10")
    gap = 16 - (len(new) + 1) % 16
    padded = new + bytes([gap]) + b"\xff" * gap + values + b"."
    yield _input("joblib-array", "an array as joblib writes it, aligned", joblib, {"features.joblib": padded})


def _wrapper(more: bytes) -> bytes:
    """joblib's words on an array of two float64; the bytes of the array follow."""
    kind = b"cnumpy\ndtype\n(" + text("f8") + b"\x89\x88tR(K\x03" + text("<")
    kind += b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    state = text("subclass") + b"cnumpy\nndarray\n" + text("shape") + b"K\x02\x85" + text("order") + text("C")
    state += text("dtype") + kind + text("allow_mmap") + b"\x88" + more
    return b"cjoblib.numpy_pickle\nNumpyArrayWrapper\n)\x81}(" + state + b"ub"


def _arrays() -> Iterator[Input]:
    yield _input("npy", "a NumPy array", _NUMPY, {"embeddings.npy": numpy_array("'<f4'", (4,), bytes(16))})
    yield _input("npy-empty", "a NumPy array without elements", _NUMPY, {"empty.npy": numpy_array("'<f8'", (0,), b"")})
    yield _input(
        "npy-text",
        "a NumPy array of texts, whose header holds an O",
        _NUMPY,
        {"names.npy": numpy_array("[('NAME OF', '<U2')]", (1,), "OK".encode("utf-32-le"))},
    )
    yield _input(
        "npz",
        "an archive of NumPy arrays",
        _NUMPY,
        {
            "arrays.npz": zipped(
                {"a.npy": numpy_array("'<i8'", (2,), bytes(16)), "b.npy": numpy_array("'|b1'", (3,), bytes(3))}
            )
        },
    )
    records = program(
        b"}("
        + text("table")
        + b"](K\x01K\x02e"
        + text("made")
        + b"cdatetime\ndatetime\nC\x0a\x07\xe8\x01\x01\x00\x00\x00\x00\x00\x00\x85Ru",
        protocol=3,
    )
    yield _input(
        "plain-pickle", "a pickle of numbers, texts and a date", "Python docs, pickle", {"labels.pkl": records}
    )


def _others() -> Iterator[Input]:
    onnx = b"\x08\x08\x12\x07pytorch\x1a\x052.1.0:\x10\n\x0e\n\x01x\x12\x01y\x22\x06MatMulB\x04\n\x00\x10\x11"
    yield _input("onnx", "an ONNX model", "onnx.proto", {"model.onnx": onnx})
    model = {
        "class_name": "Sequential",
        "config": {"layers": [{"class_name": "Dense", "config": {"name": "lambda_out", "units": 4}}]},
    }
    yield _input(
        "h5",
        "an HDF5 model of named layers, one called lambda_out",
        "Keras docs, saving",
        {"model.h5": hdf5("model_config", json.dumps(model).encode())},
    )
    layer = {"module": "keras.layers", "class_name": "Dense", "config": {"units": 4}, "registered_name": None}
    keras = {"module": "keras", "class_name": "Sequential", "config": {"layers": [layer]}, "registered_name": None}
    package = {
        "metadata.json": b'{"keras_version": "3.5.0"}',
        "config.json": json.dumps(keras).encode(),
        "model.weights.h5": hdf5("x", b"1"),
    }
    yield _input(
        "keras", "a .keras archive of named layers", "Keras docs, saving", {"model.keras": zipped(package, packed=True)}
    )
    members = {"samples/a.txt": b"one\n", "samples/b.json": b"{}"}
    yield _input(
        "tar-gz",
        "samples in a tar archive in gzip",
        "tarfile",
        {"samples.tar.gz": gzip.compress(tarred(members), mtime=0)},
    )
    config = b"model:\n  encoder:\n    layers: 2\n  optim: {name: adamw, lr: 0.001}\n"
    nemo = tarred({"./model_config.yaml": config, "./model_weights.ckpt": torch_file(tensor_pickle())})
    yield _input("nemo", "a .nemo archive of a configuration and weights", "NVIDIA NeMo docs", {"model.nemo": nemo})
    tflite = struct.pack("<I", 28) + b"TFL3" + bytes(200)
    yield _input("tflite", "a TensorFlow Lite model", "schema.fbs", {"model.tflite": tflite})
