"""An abstract machine for the opcodes of one pickle: it follows texts, imports and calls, and builds nothing.

The opcodes are walked one by one in bounded memory, with what `values` follows on the stack and in the memo, so that a
name is known even when it is put together late, and so that a call is known by what it calls. Protocols 0 to 5.
"""

from __future__ import annotations

import pickle
import pickletools
from collections.abc import Callable
from typing import BinaryIO

from modelctl.scan.arguments import Arguments, CutOffError, LimitError, integer, memo_number, text
from modelctl.scan.harmless import is_harmless, may_be_called
from modelctl.scan.values import MAX_ELEMENTS, UNKNOWN, Fields, Made, Name, array_type, seal
from modelctl.scan.walked import How, Import, Pickle

HIGHEST_PROTOCOL = 5
MAX_STACK = 4_000_000
MAX_MEMO = 2_000_000
_LOOK_AFTER = 4096
"""Opcodes between two looks at the size of the stack; none adds more than two objects."""
MAX_IMPORTS = 100_000
"""Writers import a name once and keep it, so a real file has a few dozen."""

_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class _BrokenError(Exception):
    pass


def may_begin(first: bytes) -> bool:
    """Whether a pickle can begin with this byte."""
    return first in _STEPS


Built = Callable[[Made, Arguments], object | None]
"""Told of every object that a BUILD completed; what it returns takes the object's place. It may read on in the stream,
as joblib does, and raise `ValueError`."""


def walk(stream: BinaryIO, *, built: Built | None = None) -> Pickle:
    """Walk one pickle that begins where the stream stands, at most to its end. Raises only `OSError` of the stream."""
    found = Pickle(start=stream.tell())
    try:
        _Walker(stream, found, built).run()
    except _BrokenError as error:
        found.problem = str(error)
    return found


class _Walker:
    """The abstract machine; marks on the stack are `_MARK`."""

    def __init__(self, stream: BinaryIO, found: Pickle, built: Built | None) -> None:
        self._stream = stream
        self._arguments = Arguments(stream)
        self._pickle = found
        self._built = built
        self._stack: list[object] = []
        self._push = self._stack.append
        self._memo: dict[int, object] = {}
        self._offset = 0

    def run(self) -> None:
        read, tell = self._stream.read, self._stream.tell
        self._pickle.protocol = self._protocol()
        while self._pickle.end is None:
            self._offset = tell()
            code = read(1)
            step = _STEPS.get(code)
            if step is None:
                self._pickle.cut_off = not code
                what = f"byte 0x{code.hex()} is no opcode" if code else "the end is missing"
                raise _BrokenError(f"broken pickle at byte {self._offset}: {what}")
            opcode, method = step
            try:
                method(self, opcode)
            except ValueError as error:
                self._pickle.cut_off = isinstance(error, CutOffError)
                self._pickle.limited = isinstance(error, LimitError)
                what = "unread" if self._pickle.limited else "broken"
                raise _BrokenError(f"{what} pickle at byte {self._offset}: {opcode.name}: {error}") from error
            self._pickle.opcodes += 1
            if not self._pickle.opcodes % _LOOK_AFTER and len(self._stack) > MAX_STACK:
                self._pickle.limited = True
                raise _BrokenError(f"unread pickle at byte {self._offset}: over {MAX_STACK} objects on the stack")

    def _protocol(self) -> int | None:
        """The protocol, when the first opcode says it."""
        start = self._stream.tell()
        head = self._stream.read(2)
        if head[:1] != pickle.PROTO or len(head) < 2:
            self._stream.seek(start)
            return None
        if head[1] > HIGHEST_PROTOCOL:
            raise _BrokenError(f"broken pickle at byte {start}: PROTO: protocol {head[1]} is unknown")
        self._pickle.opcodes += 1
        return head[1]

    def _stop(self, _: pickletools.OpcodeInfo) -> None:
        self._pickle.value = self._pop()
        self._pickle.end = self._stream.tell()

    def _global(self, _: pickletools.OpcodeInfo) -> None:
        self._push(self._import(self._arguments.line(), self._arguments.line()))

    def _instance(self, _: pickletools.OpcodeInfo) -> None:
        module, name = self._arguments.line(), self._arguments.line()
        values = self._pop_to_mark()
        self._push(self._call(self._import(module, name), values))

    def _stack_global(self, _: pickletools.OpcodeInfo) -> None:
        name, module = self._pop(), self._pop()
        if not isinstance(module, str) or not isinstance(name, str):
            self._pickle.unknown_name = True
            raise ValueError("a name that is computed while loading")
        self._push(self._import(module, name))

    def _extension(self, _: pickletools.OpcodeInfo) -> None:
        self._pickle.unknown_name = True
        raise ValueError("a name from the extension registry, which depends on the machine that loads it")

    def _reduce(self, _: pickletools.OpcodeInfo) -> None:
        arguments, callee = self._pop(), self._pop()
        self._push(self._call(callee, arguments))

    def _object(self, _: pickletools.OpcodeInfo) -> None:
        callee, *given = self._pop_to_mark() or (UNKNOWN,)
        self._push(self._call(callee, tuple(given)))

    def _new_with_keywords(self, _: pickletools.OpcodeInfo) -> None:
        keywords, arguments, callee = self._pop(), self._pop(), self._pop()
        empty = isinstance(keywords, Fields) and keywords.complete and not keywords.values
        self._push(self._call(callee, arguments, "calls" if empty else "calls with keyword arguments"))

    def _mark(self, _: pickletools.OpcodeInfo) -> None:
        self._push(_MARK)

    def _text(self, opcode: pickletools.OpcodeInfo) -> None:
        found = text(opcode.name, self._arguments.of(opcode))
        self._push(UNKNOWN if found is None else found)

    def _integer(self, opcode: pickletools.OpcodeInfo) -> None:
        number = integer(opcode.name, self._arguments.of(opcode))
        self._push(UNKNOWN if number is None else number)

    def _constant(self, opcode: pickletools.OpcodeInfo) -> None:
        self._push(_CONSTANTS[opcode.name])

    def _duplicate(self, _: pickletools.OpcodeInfo) -> None:
        top = self._pop()
        self._push(top)
        self._push(top)

    def _drop(self, _: pickletools.OpcodeInfo) -> None:
        if not self._stack:
            raise ValueError("the stack is empty")
        self._stack.pop()

    def _keep(self, opcode: pickletools.OpcodeInfo) -> None:
        if not self._stack or self._stack[-1] is _MARK:
            raise ValueError("an object is missing on the stack")
        number = len(self._memo) if opcode.arg is None else memo_number(opcode.name, self._arguments.of(opcode))
        self._memo[number] = self._stack[-1]
        if len(self._memo) > MAX_MEMO:
            raise LimitError(f"over {MAX_MEMO} objects are kept")

    def _fetch(self, opcode: pickletools.OpcodeInfo) -> None:
        number = memo_number(opcode.name, self._arguments.of(opcode))
        if number not in self._memo:
            raise ValueError(f"nothing was kept under number {number}")
        self._push(self._memo[number])

    def _short_tuple(self, opcode: pickletools.OpcodeInfo) -> None:
        parts = [self._pop() for _ in range(_TUPLES[opcode.name])]
        self._push(tuple(reversed(parts)))

    def _tuple(self, _: pickletools.OpcodeInfo) -> None:
        values = self._pop_to_mark()
        self._push(values if len(values) <= MAX_ELEMENTS else UNKNOWN)

    def _empty_dictionary(self, _: pickletools.OpcodeInfo) -> None:
        self._push(Fields())

    def _dictionary(self, _: pickletools.OpcodeInfo) -> None:
        self._put(Fields(), self._pop_to_mark())

    def _set_item(self, _: pickletools.OpcodeInfo) -> None:
        value, key = self._pop(), self._pop()
        self._put(self._pop(), (key, value))

    def _set_items(self, _: pickletools.OpcodeInfo) -> None:
        values = self._pop_to_mark()
        self._put(self._pop(), values)

    def _other(self, opcode: pickletools.OpcodeInfo) -> None:
        """Of all else, only how many objects come and go."""
        self._arguments.of(opcode)
        before = opcode.stack_before
        if pickletools.markobject in before:
            self._pop_to_mark()
            before = before[: before.index(pickletools.markobject)]
        for _ in before:
            self._pop()
        for _ in opcode.stack_after:
            self._push(UNKNOWN)

    def _put(self, target: object, values: tuple[object, ...]) -> None:
        if isinstance(target, Name):
            self._misuse(target, "changes")
        if isinstance(target, Fields):
            if target.sealed:
                self._misuse(Name("numpy", "dtype"), "changes")
            for key, value in zip(values[::2], values[1::2], strict=False):
                target.put(key, value)
        self._push(target)

    def _call(self, callee: object, arguments: object, how: How = "calls") -> object:
        self._pickle.calls += 1
        if not isinstance(callee, Name):
            raise ValueError("a call of something that is computed while loading")
        if how != "calls" or not may_be_called(callee, arguments):
            self._misuse(callee, how)
        return Made(callee, arguments)

    def _build(self, _: pickletools.OpcodeInfo) -> None:
        self._pickle.calls += 1
        state, target = self._pop(), self._pop()
        if isinstance(target, Name):
            self._misuse(target, "changes")
        if isinstance(target, Made):
            if target.sealed:
                self._misuse(target.maker, "changes")
            target.state = state
            if target.maker == _DTYPE:
                if array_type(target) is None:
                    self._misuse(_DTYPE, "changes")
                seal(state)
            replaced = self._built(target, self._arguments) if self._built is not None else None
            target = target if replaced is None else replaced
        self._push(target)

    def _import(self, module: str, name: str) -> Name:
        self._note(Import(module=module, name=name, offset=self._offset))
        return Name(module, name)

    def _misuse(self, name: Name, how: How) -> None:
        if is_harmless(name.module, name.name):  # of any other the import has been noted, which is enough
            self._note(Import(module=name.module, name=name.name, offset=self._offset, how=how))

    def _note(self, item: Import) -> None:
        self._pickle.imports.append(item)
        if len(self._pickle.imports) > MAX_IMPORTS:
            raise LimitError(f"over {MAX_IMPORTS} imports")

    def _pop(self) -> object:
        if not self._stack or self._stack[-1] is _MARK:
            raise ValueError("an object is missing on the stack")
        return self._stack.pop()

    def _pop_to_mark(self) -> tuple[object, ...]:
        for place in range(len(self._stack) - 1, -1, -1):
            if self._stack[place] is _MARK:
                values = tuple(self._stack[place + 1 :])
                del self._stack[place:]
                return values
        raise ValueError("the mark is missing on the stack")


_MARK = object()
_DTYPE = Name("numpy", "dtype")

_METHODS: dict[str, Callable[[_Walker, pickletools.OpcodeInfo], None]] = {
    "STOP": _Walker._stop,
    "GLOBAL": _Walker._global,
    "INST": _Walker._instance,
    "STACK_GLOBAL": _Walker._stack_global,
    **dict.fromkeys(("EXT1", "EXT2", "EXT4"), _Walker._extension),
    **dict.fromkeys(("REDUCE", "NEWOBJ"), _Walker._reduce),
    "OBJ": _Walker._object,
    "NEWOBJ_EX": _Walker._new_with_keywords,
    "BUILD": _Walker._build,
    "MARK": _Walker._mark,
    **dict.fromkeys(
        ("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "STRING", "BINSTRING", "SHORT_BINSTRING"),
        _Walker._text,
    ),
    **dict.fromkeys(("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4"), _Walker._integer),
    **dict.fromkeys(_CONSTANTS, _Walker._constant),
    "DUP": _Walker._duplicate,
    "POP": _Walker._drop,
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), _Walker._keep),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), _Walker._fetch),
    **dict.fromkeys(_TUPLES, _Walker._short_tuple),
    "TUPLE": _Walker._tuple,
    "EMPTY_DICT": _Walker._empty_dictionary,
    "DICT": _Walker._dictionary,
    "SETITEM": _Walker._set_item,
    "SETITEMS": _Walker._set_items,
}
_STEPS = {
    opcode.code.encode("latin-1"): (opcode, _METHODS.get(opcode.name, _Walker._other)) for opcode in pickletools.opcodes
}
