"""Formats of other frameworks that run code, or touch files, when they are loaded."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.corpus.base import BYTES, GATE, Input
from tests.corpus.containers import zipped
from tests.corpus.hdf5 import hdf5
from tests.corpus.streams import SYSTEM, program

GROUP = "frameworks"
_LAMBDA = "CVE-2024-3660, CERT VU#253266: Lambda layers"


def inputs() -> Iterator[Input]:
    """All of them."""
    yield from _keras()
    yield from _graphs()
    yield from _torchscript()


def _input(
    name: str,
    what: str,
    report: str,
    path: str,
    data: bytes,
    rules: tuple[str, ...],
    *,
    checks: tuple[str, ...] = BYTES,
) -> Input:
    return Input(
        id=f"framework-{name}", group=GROUP, what=what, report=report, files={path: data}, rules=rules, checks=checks
    )  # fmt: skip


def _keras() -> Iterator[Input]:
    function = {"class_name": "__lambda__", "config": {"code": "4wEAAAA=", "defaults": None, "closure": None}}
    layer = {"class_name": "Lambda", "config": {"name": "lambda", "function": function}}
    model = {"class_name": "Functional", "config": {"name": "m", "layers": [layer]}}
    keras = ("malware.keras",)
    text = json.dumps(model).encode()
    yield _input(
        "h5-lambda", "an HDF5 model with a Lambda layer", _LAMBDA, "model.h5", hdf5("model_config", text), keras
    )
    dense = json.dumps(model, indent=2).encode()
    yield _input(
        "h5-lambda-spaced",
        "the same with other white space in its JSON",
        _LAMBDA,
        "tf_model.h5",
        hdf5("model_config", dense),
        keras,
    )
    package = {"metadata.json": b'{"keras_version": "3.0.0"}', "config.json": text, "model.weights.h5": hdf5("x", b"1")}
    yield _input("keras-lambda", "a .keras archive with a Lambda layer", _LAMBDA, "model.keras", zipped(package), keras)
    call = {"module": "os", "class_name": "function", "config": "system", "registered_name": "function"}
    nested = {"module": "keras", "class_name": "Sequential", "config": {"layers": [call | {"args": ["true"]}]}}
    package["config.json"] = json.dumps(nested).encode()
    report = "CVE-2025-1550: a .keras configuration names any module and function, safe_mode or not"
    yield _input("keras-module", "a .keras archive that names os.system", report, "model.keras", zipped(package), keras)
    escaped = text.replace(b"Lambda", b"L\\u0061mbda")
    package["config.json"] = escaped
    yield _input(
        "keras-escaped", "a Lambda layer with a letter as an escape", _LAMBDA, "model.keras", zipped(package), keras
    )


def _graphs() -> Iterator[Input]:
    jfrog = "JFrog TFLOW-MALOPS: ReadFile and WriteFile in a SavedModel"
    for name in ("ReadFile", "WriteFile"):
        node = b"\n\x04node\x12" + bytes([len(name)]) + name.encode()
        body = b"\x12" + bytes([len(node) + 2]) + b"\n" + bytes([len(node)]) + node
        graph = b"\x08\x01\x12" + bytes([len(body)]) + body
        yield _input(
            f"savedmodel-{name.lower()}", f"a TensorFlow graph with the operator {name}", jfrog,
            "saved_model.pb", graph, ("malware.", "integrity.format"), checks=GATE,
        )  # fmt: skip


def _torchscript() -> Iterator[Input]:
    report = "PyTorch SECURITY.md: models are programs; TorchScript is one, and torch.load hands it to torch.jit.load"
    source = (
        b"class Module(Module):\n  __parameters__ = []\n  __buffers__ = []\n"
        b"  def forward(self: __torch__.Module,\n    x: Tensor) -> Tensor:\n"
        b'    _0 = ops.aten.save(x, "out.pt")\n    return torch.from_file("/etc/hostname", False, 10)\n'
    )
    members = {
        "m/data.pkl": program(b"c__torch__\nModule\n)\x81"),
        "m/code/__torch__.py": source,
        "m/constants.pkl": program(b")"),
    }
    yield _input(
        "torchscript", "a TorchScript program that reads and writes files", report, "model.pt",
        zipped(members | {"m/version": b"3\n"}), ("malware.pickle-import", "malware.torchscript", "code."), checks=GATE,
    )  # fmt: skip
    harmless = {"m/data.pkl": program(b"}"), "m/version": b"3\n"}
    yield _input(
        "torchscript-constants", "a payload in a TorchScript archive's constants", report, "model.pt",
        zipped(harmless | {"m/constants.pkl": SYSTEM}), ("malware.pickle-import",), checks=GATE,
    )  # fmt: skip
