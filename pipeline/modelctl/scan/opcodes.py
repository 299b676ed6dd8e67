"""An abstract machine for the opcodes of one pickle: it follows texts and imports, and builds nothing.

The opcodes are walked one by one in bounded memory, with the texts on the stack and in the memo followed, so that a
name is known even when it is put together late. Protocols 0 to 5.
"""

from __future__ import annotations

import codecs
import io
import pickletools
import re
from dataclasses import dataclass, field
from typing import BinaryIO

from modelctl.scan.harmless import is_harmless

MAX_TEXT_BYTES = 64 << 10
"""Longest argument that is looked at; longer ones are skipped (no importable name is as long)."""
MAX_NAME_CHARACTERS = 512
HIGHEST_PROTOCOL = 5
MAX_STACK = 4_000_000
MAX_MEMO = 2_000_000
MAX_IMPORTS = 100_000
"""Writers import a name once and keep it, so a real file has a few dozen."""

CERTAIN_OPCODES = 16
"""So many opcodes in a row are no accident; the length that a safetensors file begins with can pass for a few."""

_OPCODES = {ord(opcode.code): opcode for opcode in pickletools.opcodes}
_CALLS = frozenset({"REDUCE", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "BUILD"})
_TEXTS = frozenset(
    {"UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "STRING", "BINSTRING", "SHORT_BINSTRING"}
)
_PUTS = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
_GETS = frozenset({"GET", "BINGET", "LONG_BINGET"})
_EXTENSIONS = frozenset({"EXT1", "EXT2", "EXT4"})
_LENGTHS = {
    pickletools.TAKEN_FROM_ARGUMENT1: (1, False),
    pickletools.TAKEN_FROM_ARGUMENT4: (4, True),
    pickletools.TAKEN_FROM_ARGUMENT4U: (4, False),
    pickletools.TAKEN_FROM_ARGUMENT8U: (8, False),
}
_IDENTIFIER = re.compile(r"\w+(\.\w+)*")


@dataclass(frozen=True, kw_only=True)
class Import:
    """A name that a loader of the pickle would import, at `offset` bytes from the start of the file."""

    module: str
    name: str
    offset: int

    @property
    def harmless(self) -> bool:
        """Whether the exact name is on the list of harmless ones."""
        return is_harmless(self.module, self.name)


@dataclass(kw_only=True)
class Pickle:
    """What a walk saw. `end` is the offset behind the STOP, None when there was none."""

    start: int
    protocol: int | None = None
    """As the pickle itself says; None for protocols 0 and 1, which need not."""
    imports: list[Import] = field(default_factory=list)
    calls: int = 0
    problem: str | None = None
    """Why the walk could not go on, or could not tell a name; None when it came to the end."""
    unknown_name: bool = False
    """Something is imported, and what it is can't be told from the bytes."""
    opcodes: int = 0
    end: int | None = None
    first_number: int | None = None
    """The first integer of the pickle: old torch files begin with a known one."""

    @property
    def certain(self) -> bool:
        """Whether the bytes are a pickle beyond doubt, not a text that happens to begin with its letters."""
        known = self.end is not None or bool(self.imports) or self.unknown_name
        if self.protocol is not None and (known or self.opcodes >= CERTAIN_OPCODES):
            return True
        names = any(_IDENTIFIER.fullmatch(item.module) and _IDENTIFIER.fullmatch(item.name) for item in self.imports)
        return names and (self.calls > 0 or self.end is not None)


class _BrokenError(Exception):
    pass


def walk(stream: BinaryIO) -> Pickle:
    """Walk one pickle that begins where the stream stands, at most to its end. Raises only `OSError` of the stream."""
    pickle = Pickle(start=stream.tell())
    try:
        _Walker(stream, pickle).run()
    except _BrokenError as error:
        pickle.problem = str(error)
    return pickle


class _Walker:
    """The abstract machine: texts are followed, everything else on the stack is None, marks are `_MARK`."""

    def __init__(self, stream: BinaryIO, pickle: Pickle) -> None:
        self._stream = stream
        self._pickle = pickle
        self._stack: list[object] = []
        self._memo: dict[int, object] = {}
        here = stream.tell()
        self._size = stream.seek(0, io.SEEK_END)
        stream.seek(here)

    def run(self) -> None:
        offset = self._stream.tell()
        first = True
        while True:
            code = self._stream.read(1)
            opcode = _OPCODES.get(code[0]) if code else None
            if opcode is None:
                what = f"byte 0x{code.hex()} is no opcode" if code else "the end is missing"
                raise _BrokenError(f"broken pickle at byte {offset}: {what}")
            try:
                if first and opcode.name == "PROTO":
                    self._protocol()
                elif opcode.name == "STOP":
                    self._pop()
                    self._pickle.opcodes += 1
                    self._pickle.end = self._stream.tell()
                    return
                else:
                    self._step(opcode, offset)
            except ValueError as error:
                raise _BrokenError(f"broken pickle at byte {offset}: {opcode.name}: {error}") from error
            first = False
            self._pickle.opcodes += 1
            offset = self._stream.tell()

    def _protocol(self) -> None:
        protocol = self._exactly(1)[0]
        if protocol > HIGHEST_PROTOCOL:
            raise ValueError(f"protocol {protocol} is unknown")
        self._pickle.protocol = protocol

    def _step(self, opcode: pickletools.OpcodeInfo, offset: int) -> None:
        name = opcode.name
        if name in ("GLOBAL", "INST"):
            module, attribute = self._line(), self._line()
            if name == "INST":
                self._pop_to_mark()
            self._import(module, attribute, offset)
            self._push(None)
        elif name == "STACK_GLOBAL":
            self._argument(opcode)
            attribute_, module_ = self._pop(), self._pop()
            if not isinstance(module_, str) or not isinstance(attribute_, str):
                self._pickle.unknown_name = True
                raise ValueError("a name that is computed while loading")
            self._import(module_, attribute_, offset)
            self._push(None)
        elif name in _EXTENSIONS:
            self._pickle.unknown_name = True
            raise ValueError("a name from the extension registry, which depends on the machine that loads it")
        else:
            self._move(name, opcode, self._argument(opcode))
        if name in _CALLS:
            self._pickle.calls += 1

    def _move(self, name: str, opcode: pickletools.OpcodeInfo, argument: bytes) -> None:
        if name == "MARK":
            self._push(_MARK)
        elif name in _TEXTS:
            self._push(_text(name, argument))
        elif name == "DUP":
            top = self._pop()
            self._push(top)
            self._push(top)
        elif name in _PUTS:
            self._store(_number(name, argument))
        elif name == "MEMOIZE":
            self._store(len(self._memo))
        elif name in _GETS:
            number = _number(name, argument)
            if number not in self._memo:
                raise ValueError(f"nothing was kept under number {number}")
            self._push(self._memo[number])
        elif name == "POP":
            if not self._stack:
                raise ValueError("the stack is empty")
            self._stack.pop()
        else:
            self._effect(name, opcode, argument)

    def _effect(self, name: str, opcode: pickletools.OpcodeInfo, argument: bytes) -> None:
        before = opcode.stack_before
        if pickletools.markobject in before:
            self._pop_to_mark()
            before = before[: before.index(pickletools.markobject)]
        for _ in before:
            self._pop()
        for _ in opcode.stack_after:
            self._push(None)
        if name in ("LONG1", "INT", "BININT") and self._pickle.first_number is None:
            self._pickle.first_number = _integer(name, argument)

    def _import(self, module: str, name: str, offset: int) -> None:
        self._pickle.imports.append(Import(module=module, name=name, offset=offset))
        if len(self._pickle.imports) > MAX_IMPORTS:
            raise ValueError(f"over {MAX_IMPORTS} imports")

    def _push(self, value: object) -> None:
        self._stack.append(value)
        if len(self._stack) > MAX_STACK:
            raise ValueError(f"over {MAX_STACK} objects on the stack")

    def _pop(self) -> object:
        if not self._stack or self._stack[-1] is _MARK:
            raise ValueError("an object is missing on the stack")
        return self._stack.pop()

    def _pop_to_mark(self) -> None:
        while self._stack:
            if self._stack.pop() is _MARK:
                return
        raise ValueError("the mark is missing on the stack")

    def _store(self, number: int) -> None:
        if not self._stack or self._stack[-1] is _MARK:
            raise ValueError("an object is missing on the stack")
        top = self._stack[-1]
        self._memo[number] = top if isinstance(top, str) and len(top) <= MAX_NAME_CHARACTERS else None
        if len(self._memo) > MAX_MEMO:
            raise ValueError(f"over {MAX_MEMO} objects are kept")

    def _argument(self, opcode: pickletools.OpcodeInfo) -> bytes:
        argument = opcode.arg
        if argument is None:
            return b""
        if argument.n >= 0:
            return self._exactly(argument.n)
        if argument.n == pickletools.UP_TO_NEWLINE:
            return self._raw_line()
        width, signed = _LENGTHS[argument.n]
        length = int.from_bytes(self._exactly(width), "little", signed=signed)
        if length < 0:
            raise ValueError("a negative length")
        if length <= MAX_TEXT_BYTES:
            return self._exactly(length)
        self._skip(length)
        return b""

    def _exactly(self, size: int) -> bytes:
        content = self._stream.read(size)
        if len(content) != size:
            raise ValueError("it is cut off")
        return content

    def _skip(self, size: int) -> None:
        if size > self._size - self._stream.tell():
            raise ValueError("it is cut off")
        self._stream.seek(size, io.SEEK_CUR)

    def _raw_line(self) -> bytes:
        line = self._stream.readline(MAX_TEXT_BYTES)
        if not line.endswith(b"\n"):
            raise ValueError("a line without an end")
        return line[:-1]

    def _line(self) -> str:
        return self._raw_line().decode("utf-8", "surrogateescape")


_MARK = object()


def _text(name: str, argument: bytes) -> object:
    """The text of a string opcode; None when it is too long for a name."""
    if name == "STRING":
        if len(argument) < 2 or argument[:1] not in (b'"', b"'") or argument[-1:] != argument[:1]:
            raise ValueError("a string without quotes")
        decoded = codecs.escape_decode(argument[1:-1])[0].decode("latin-1")
    elif name == "UNICODE":
        decoded = argument.decode("raw_unicode_escape")
    else:
        decoded = argument.decode("utf-8", "surrogatepass") if "UNICODE" in name else argument.decode("latin-1")
    return decoded if 0 < len(decoded) <= MAX_NAME_CHARACTERS else None


def _number(name: str, argument: bytes) -> int:
    return int(argument) if name in ("PUT", "GET") else int.from_bytes(argument, "little")


def _integer(name: str, argument: bytes) -> int | None:
    if name == "INT":
        return int(argument) if argument.isdigit() else None
    return int.from_bytes(argument, "little", signed=True)
