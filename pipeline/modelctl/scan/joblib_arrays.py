"""Arrays in joblib's files: the raw numbers lie between two opcodes of the pickle, where only joblib skips them.

When joblib completes a `NumpyArrayWrapper`, it reads the array that follows: padding whose length is the first byte
(since 1.2), then the numbers; or a pickle of its own when the array holds objects. Source: joblib/numpy_pickle.py, 1.6.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from modelctl.scan.arguments import Arguments
from modelctl.scan.values import Fields, Made, Name, array_type

_WRAPPER = Name("joblib.numpy_pickle", "NumpyArrayWrapper")
_ALIGNMENT = "numpy_array_alignment_bytes"


class JoblibArrays:
    """Skips the arrays of one pickle; `nested` walks the pickle of an array of objects, where the stream stands.

    `skipped` is where the first of them was: from there on, joblib and pickle read different opcodes. `mixed` is where
    the first nested pickle was: what pickle makes of that, with what it kept before, says nothing.
    """

    def __init__(self, position: Callable[[], int], nested: Callable[[], None]) -> None:
        self.skipped: int | None = None
        self.mixed: int | None = None
        self._position = position
        self._nested = nested

    def __call__(self, target: Made, arguments: Arguments) -> object | None:
        """What `opcodes.Built` asks for. Raises `ValueError` for an array whose length can't be told."""
        if target.maker != _WRAPPER:
            return None
        if self.skipped is None:
            self.skipped = self._position()
        state = target.state
        if not isinstance(state, Fields) or not state.complete:
            raise ValueError("a joblib array without a description")
        kind = array_type(state.values.get("dtype"))
        shape = state.values.get("shape")
        if kind is None or not isinstance(shape, tuple) or not all(type(item) is int and item >= 0 for item in shape):
            raise ValueError("a joblib array whose length can't be told")
        if kind.objects:
            if self.mixed is None:
                self.mixed = self._position()
            self._nested()
            return Made(Name("numpy", "ndarray"), None)
        alignment = state.values.get(_ALIGNMENT)
        if alignment is not None:
            arguments.skip(arguments.exactly(1)[0])
        arguments.skip(kind.size * math.prod(item for item in shape if type(item) is int))
        return Made(Name("numpy", "ndarray"), None)
