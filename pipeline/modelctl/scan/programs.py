"""Programs in the clothes of a model: TensorFlow graphs, machine code inside an archive, and the paths in ONNX files.

A TensorFlow graph runs operations by name, which read and write files and call Python; the ones that every saved model
needs to restore its weights can do so too, so that a graph is refused as a whole. An ONNX model only computes, but may
name files that its tensors are read from. Formats: tensorflow/core/protobuf/saved_model.proto, onnx/onnx.proto.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO

from modelctl.scan import protobuf
from modelctl.scan.content import CHUNK_BYTES, Content
from modelctl.scan.problems import Reason

_OPERATION = re.compile(r"_?[A-Z][A-Za-z0-9_>]*")
_NODE_NAME = re.compile(r"[\w.>/\\-]+")
_TEXT_NODE = re.compile(rb"\bop\s*:\s*[\"']")
_TEXT_REACH_BYTES = 64
_FIRST_KEYS = frozenset(bytes([number << 3 | kind]) for number in range(1, 9) for kind in (0, 2))
"""How the first field of a message begins: a number or a text under the numbers that these formats use."""
_REACHING_OUT = frozenset(
    {
        *("PyFunc", "PyFuncStateless", "EagerPyFunc", "ReadFile", "WriteFile", "MatchingFiles", "WholeFileReader"),
        *("WholeFileReaderV2", "DebugIdentity", "Save", "SaveSlices", "LoadLibrary", "ImmutableConst"),
    }
)
"""Operations that a finding names when a graph has them."""
MACHINE_CODE = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xfe\xed\xfa\xcf", b"\xfe\xed\xfa\xce")
"""How programs and libraries begin: ELF, and Mach-O of either width and byte order."""
_LEAVES = re.compile(r"^[/\\]|^[A-Za-z]:|(^|[/\\])\.\.([/\\]|$)|\0")
_MAX_DEPTH = 60
"""Messages within messages: three for each graph inside a graph, of which real models of speech have five and more."""
_MAX_MESSAGES = 5_000_000


class _LimitError(Exception):
    """A model that is too large or too deep to be gone through."""


def inspect(content: Content, name: str, *, in_archive: bool) -> Iterator[Reason]:
    """What speaks against a file or a member of an archive."""
    head = content.peek(0, 64)
    if in_archive and _is_machine_code(content, head):
        yield "program", "a program or library in machine code, inside an archive"
    if name.endswith(".pbtxt") and _is_graph_in_text(content):
        yield "tensorflow-graph", "a TensorFlow graph as text, which is a program"
    if head[:1] not in _FIRST_KEYS and not name.endswith((".pb", ".onnx")):
        return
    with content.open() as stream:
        operations = _operations(stream, content.size)
        if operations:
            reaching = ", ".join(sorted(operations & _REACHING_OUT))
            words = f", which reaches out of it by {reaching}" if reaching else ""
            yield "tensorflow-graph", f"a TensorFlow graph, which is a program{words}"
            return
        try:
            for path in _external_paths(stream, content.size):
                yield "onnx-path", f"an ONNX model that reads a tensor from {path[:200]!a}"
        except _LimitError as error:
            yield "onnx-path", f"an ONNX model that can't be read for paths: {error}"
        except ValueError as error:
            if name.endswith(".onnx"):
                yield "onnx-path", f"by its name an ONNX model, which can't be read for paths: {error}"


def _is_machine_code(content: Content, head: bytes) -> bool:
    if head.startswith(MACHINE_CODE):
        return True
    if not head.startswith(b"MZ") or len(head) < 64:
        return False
    return content.peek(int.from_bytes(head[60:64], "little"), 4) == b"PE\0\0"


def _operations(stream: BinaryIO, size: int) -> set[str]:
    """The operations of a saved model or of a graph alone; none for anything else. Fields come in any order."""
    found: set[str] = set()
    for read in (_saved_model, _graph):
        with suppress(ValueError):  # it is the other one; and what is broken behind a graph's nodes changes nothing
            read(stream, 0, size, found, [_MAX_MESSAGES])
    return found


def _saved_model(stream: BinaryIO, start: int, end: int, found: set[str], left: list[int]) -> None:
    """SavedModel: the graph is field 2 of each message in field 2."""
    for field in protobuf.fields(stream, start, end):
        if field.number == 2 and field.is_message:
            for part in protobuf.fields(stream, field.start, field.end):
                if part.number == 2 and part.is_message:
                    _graph(stream, part.start, part.end, found, left)


def _graph(stream: BinaryIO, start: int, end: int, found: set[str], left: list[int]) -> None:
    """GraphDef: nodes are field 1, and those of functions field 3 of field 1 of the library, field 2."""
    for field in protobuf.fields(stream, start, end):
        if field.number == 1 and field.is_message:
            _node(stream, field, found, left)
        elif field.number == 2 and field.is_message:
            for function in protobuf.fields(stream, field.start, field.end):
                if function.number == 1 and function.is_message:
                    for part in protobuf.fields(stream, function.start, function.end):
                        if part.number == 3 and part.is_message:
                            _node(stream, part, found, left)


def _node(stream: BinaryIO, node: protobuf.Field, found: set[str], left: list[int]) -> None:
    """NodeDef: the name is field 1, the operation field 2, which may be a function's name instead."""
    left[0] -= 1
    if left[0] < 0:
        return
    texts: dict[int, str] = {}
    for field in protobuf.fields(stream, node.start, node.end):
        if field.number in (1, 2):
            if not field.is_message:
                raise ValueError("no node")
            texts[field.number] = protobuf.text(stream, field)
    if not _NODE_NAME.fullmatch(texts.get(1, "")) or not _NODE_NAME.fullmatch(texts.get(2, "")):
        raise ValueError("no node")
    if _OPERATION.fullmatch(texts[2]):
        found.add(texts[2])


def _is_graph_in_text(content: Content) -> bool:
    with content.open() as stream:
        behind = b""
        while block := stream.read(CHUNK_BYTES):
            if _TEXT_NODE.search(behind + block):
                return True
            behind = block[-_TEXT_REACH_BYTES:]
    return False


def _external_paths(stream: BinaryIO, size: int) -> Iterator[str]:
    """Where tensors of an ONNX model lie outside of its folder. Raises `ValueError` when it is no such model."""
    left = [_MAX_MESSAGES]
    for field in protobuf.fields(stream, 0, size):
        if field.number == 7 and field.is_message:
            yield from _paths(stream, field, "graph", left, 0)


_ONNX = {
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}
"""Messages of ONNX by the field that holds them."""


def _paths(stream: BinaryIO, message: protobuf.Field, kind: str, left: list[int], depth: int) -> Iterator[str]:
    left[0] -= 1
    if left[0] < 0 or depth > _MAX_DEPTH:
        raise _LimitError("it has too many parts or too deep ones")
    if kind == "entry":
        texts = {
            field.number: field for field in protobuf.fields(stream, message.start, message.end) if field.is_message
        }
        if 1 in texts and 2 in texts and protobuf.text(stream, texts[1]) == "location":
            path = protobuf.text(stream, texts[2])
            if _LEAVES.search(path) or texts[2].end - texts[2].start > protobuf.MAX_TEXT_BYTES:
                yield path
        return
    for field in protobuf.fields(stream, message.start, message.end):
        inner = _ONNX[kind].get(field.number)
        if inner is not None and field.is_message:
            yield from _paths(stream, field, inner, left, depth + 1)
