"""Pickles that hide a call from a reader: in how names are spelt, in broken streams, in pickles within pickles."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

from tests.corpus.base import BYTES, Input
from tests.corpus.containers import numpy_array, torch_file, zipped
from tests.corpus.streams import SYSTEM, arguments, call, called, old_torch, program, short, stacked, text
from tests.support.pickles import tensor_pickle

GROUP = "pickle tricks"
_DOCS = "Python docs, pickletools: what each opcode does"
_HAT = "Black Hat talk 'Deal With It' (Litvinov, Johnston): invalid opcodes, nested pickles, names put together"
_BROKEN = ("malware.pickle-import", "malware.pickle-broken")


def inputs() -> Iterator[Input]:
    """All of them."""
    yield from _spelt()
    yield from _streams()
    yield from _nested()
    yield from _arrays()


def _torch(
    name: str, what: str, report: str, pickle: bytes, *, rules: tuple[str, ...] = ("malware.pickle-import",)
) -> Input:
    return _files(name, what, report, {"pytorch_model.bin": pickle}, rules=rules)


def _files(
    name: str,
    what: str,
    report: str,
    files: Mapping[str, bytes],
    *,
    rules: tuple[str, ...] = ("malware.pickle-import",),
) -> Input:
    pytorch = all(path.endswith((".bin", ".pt")) for path in files)
    checks = {} if pytorch else {"checks": BYTES}
    return Input(id=f"pickle-{name}", group=GROUP, what=what, report=report, files=files, rules=rules, **checks)


def _spelt() -> Iterator[Input]:
    payload = arguments(("true",))
    memo = short("posix") + b"\x94" + b"0" + short("system") + b"\x940" + b"h\x00h\x01\x93" + payload + b"R"
    yield _torch("protocol-0", "protocol 0, which is text", _DOCS, b"cposix\nsystem\n(S'true'\ntR.")
    yield _torch(
        "protocol-1", "protocol 1, with no announcement", _DOCS, program(called("posix", "system"), protocol=None)
    )
    yield _torch("protocol-3", "protocol 3", _DOCS, program(called("posix", "system"), protocol=3))
    yield _torch(
        "stack-global", "the name taken from the stack", _DOCS, program(stacked("posix", "system"), protocol=4)
    )
    yield _torch("memo", "both parts of the name kept, dropped and fetched again", _HAT, program(memo, protocol=4))
    frame = b"\x95" + struct.pack("<Q", len(memo) + 1) + memo
    yield _torch("protocol-5", "protocol 5 with a frame", _DOCS, program(frame, protocol=5))
    escaped = b"V\\u0070osix\nVs\\u0079stem\n\x93" + payload + b"R"
    yield _torch("escaped-name", "a name with letters as \\u escapes", _HAT, program(escaped, protocol=4))
    dotted = stacked("collections", "abc.sys.modules", ("os",))
    report = "fickling#210: attributes of harmless modules lead to others"
    yield _torch("dotted-name", "a dotted name that begins in a harmless module", report, program(dotted, protocol=4))
    yield _torch("inst", "INST, which imports and calls in one", _DOCS, b"(S'true'\niposix\nsystem\n.")
    yield _torch(
        "obj", "OBJ, which calls what lies above a mark", _DOCS, program(b"(cposix\nsystem\n" + text("true") + b"o")
    )
    newobj = b"cos\n_wrap_close\n" + text("x") + text("y") + b"\x86\x81"
    yield _torch("newobj", "NEWOBJ, which calls a class's __new__", _DOCS, program(newobj))
    extended = b"csubprocess\nPopen\n)}" + text("args") + text("true") + b"s\x92"
    yield _torch("newobj-ex", "NEWOBJ_EX, with arguments by name", _DOCS, program(extended, protocol=4))
    registry = b"\x82\x01)R"
    report = "Python docs, copyreg.add_extension: numbers that stand for names on the machine that loads"
    yield _torch(
        "extension", "a name by its number in the extension registry", report, program(registry), rules=_BROKEN
    )
    computed = b"cbuiltins\nstr\n" + text("posix") + b"\x85R" + short("system") + b"\x93" + payload + b"R"
    yield _torch(
        "computed-name",
        "a module's name that is the result of a call",
        _HAT,
        program(computed, protocol=4),
        rules=_BROKEN,
    )


def _streams() -> Iterator[Input]:
    payload = called("posix", "system")
    nullifai = "ReversingLabs 2025, nullifAI: the payload at the start of a stream that breaks behind it"
    broken = b"\x80\x02" + payload + b"0\xff\xff\xff"
    yield _torch(
        "broken-after-call", "a payload, then bytes that are no opcodes", nullifai, torch_file(broken), rules=_BROKEN
    )
    yield _torch("no-stop", "a payload and no end", nullifai, torch_file(b"\x80\x02" + payload), rules=_BROKEN)
    yield _torch("bare-broken", "the same outside a zip", nullifai, broken, rules=_BROKEN)
    hidden = "promptfoo 2026, 'Open-Sourcing ModelAudit': calls vanish from fickling's view when the result is popped"
    yield _torch(
        "popped-result", "a call whose result is thrown away", hidden, torch_file(tensor_pickle(payload + b"0"))
    )
    build = called("collections", "OrderedDict", ()) + b"}" + text("x") + b"cposix\nsystem\nsb"
    report = "fickling advisory GHSA-mhc9-48gj-9gp3: one more BUILD and everything is called safe"
    yield _torch("build", "a name that gets into an object by BUILD", report, program(build))
    second = program(b"}") + SYSTEM
    report = "trailofbits/fickling, StackedPickle: files hold several pickles, one behind the other"
    yield _torch("second-pickle", "a harmless pickle, then a hostile one", report, second)
    padded = b"\x80\x02" + b"N0" * 60_000 + payload + b"."
    yield _torch("far-in", "a payload behind 120 kilobytes of nothing", "a reader that stops early", padded)
    yield _torch(
        "old-torch",
        "the format of before torch 1.6, with a payload in the state",
        "torch.serialization",
        old_torch(SYSTEM),
    )
    yield _torch(
        "old-torch-keys", "the same with the payload in the fifth pickle", "torch.serialization: five pickles are read",
        old_torch(program(b"}"), keys=payload),
    )  # fmt: skip


def _nested() -> Iterator[Input]:
    report = "picklescan advisory GHSA-84r2-jw7c-4r5q: a pickle within a pickle"
    inner = b"B" + struct.pack("<I", len(SYSTEM)) + SYSTEM
    for name, module, function in (
        ("nested-loads", "pickle", "loads"),
        ("nested-c-loads", "_pickle", "loads"),
        ("nested-torch", "torch.storage", "_load_from_bytes"),
    ):
        nested = f"c{module}\n{function}\n".encode() + inner + b"\x85R"
        yield _torch(
            name,
            f"a pickle as bytes that {module}.{function} is given",
            report,
            torch_file(program(nested, protocol=3)),
        )
    for name, module, function in (
        ("dill", "dill._dill", "_create_function"),
        ("cloudpickle", "cloudpickle.cloudpickle", "_make_function"),
        ("marshal", "marshal", "loads"),
    ):
        report = "AM-Core/modelscan-cloudpickle-dill-false-negative-poc: modelscan 0.8.8 finds nothing in these"
        yield _torch(f"code-{name}", f"a function as {name} pickles it", report, torch_file(call(module, function)))


def _arrays() -> Iterator[Input]:
    objects = numpy_array("'|O'", (1,), SYSTEM)
    numpy = "CVE-2019-6446: numpy.load and object arrays"
    yield _files("npy", "a NumPy array of objects", numpy, {"embeddings.npy": objects})
    yield _files("npz", "an archive of NumPy arrays, one of objects", numpy, {"arrays.npz": zipped({"a.npy": objects})})
    fields = numpy_array("[('n', '<i4'), ('x', '|O')]", (1,), SYSTEM)
    yield _files("npy-fields", "a NumPy array with a field of objects", numpy, {"table.npy": fields})
    sklearn = "CVE-2020-13092: joblib.load of a scikit-learn model"
    forest = (
        b"csklearn.ensemble._forest\nRandomForestClassifier\n)\x81}"
        + text("n_jobs")
        + called("posix", "system")
        + b"sb"
    )
    yield _files("sklearn", "an estimator with a call among its attributes", sklearn, {"model.joblib": program(forest)})
    wrapper = b"cjoblib.numpy_pickle\nNumpyArrayWrapper\n)\x81}(" + text("dtype") + b"cnumpy\ndtype\n" + text("O8")
    wrapper += b"\x89\x88\x87R" + text("allow_mmap") + b"\x89ub"
    array = b"\x80\x03" + wrapper + SYSTEM + b"."
    yield _files(
        "joblib-array", "an array of objects as joblib writes it: a second pickle in the middle of the first",
        "joblib.numpy_pickle.NumpyArrayWrapper.read_array, which calls pickle.load", {"features.joblib": array},
        rules=_BROKEN,
    )  # fmt: skip
