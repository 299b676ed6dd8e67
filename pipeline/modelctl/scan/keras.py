"""Keras models: the description of their layers is JSON, and loading it imports and runs what it names.

It lies in `config.json` of a .keras archive, in the attribute `model_config` of an HDF5 file, or in a JSON file of its
own. Only names of Keras's own layers, initialisers, losses and the like pass; what runs code that the file brings, or
names code or files elsewhere, is told.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from modelctl.scan.content import Content
from modelctl.scan.hdf5 import is_hdf5, json_objects
from modelctl.scan.problems import Reason

MAX_JSON_BYTES = 64 << 20
MAX_TOLD = 20
_CODE_LAYERS = frozenset({"Lambda", "TorchModuleWrapper", "JaxLayer", "FlaxLayer", "TFSMLayer", "TensorFlowOpLayer"})
"""Layers that hold a function, a pickle, or the place of a program."""
_OPERATIONS = re.compile(r"(__operators__|math|nn|linalg)\.\w+|cast|concat|expand_dims|reshape|squeeze|stack|transpose")
"""What a TFOpLambda layer may call; the rest of TensorFlow reads and writes files too."""
_LOOKUPS = frozenset({"StringLookup", "IntegerLookup", "IndexLookup", "TextVectorization"})
_OWN_MODULE = re.compile(
    r"keras(\.src)?(\.(activations|constraints|dtype_policies|initializers|layers|legacy|losses|metrics|models|ops|"
    r"optimizers|random|regularizers|engine|mixed_precision|backend\.\w+\.optimizers)(\.\w+)*)?"
)
_FUNCTIONS = (
    "elu exponential gelu hard_sigmoid hard_silu leaky_relu linear log_softmax mish relu relu6 selu sigmoid silu "
    "softmax softplus softsign swish tanh accuracy binary_accuracy binary_crossentropy categorical_accuracy "
    "categorical_crossentropy cosine_similarity hinge huber kl_divergence log_cosh mae mape mean_absolute_error "
    "mean_squared_error mse poisson sparse_categorical_accuracy sparse_categorical_crossentropy"
)
_BUILTIN_FUNCTIONS = frozenset(_FUNCTIONS.split())
"""Keras's own functions, which it writes as being of `builtins`; from there it would import any other too."""


def inspect(content: Content, name: str) -> Iterator[Reason]:
    """What speaks against a file or a member of an archive, if it describes a Keras model."""
    in_archive = "!" in name
    if is_hdf5(content, thorough=not in_archive or name.endswith((".h5", ".hdf5"))):
        yield from _hdf5(content)
        return
    in_archive = in_archive and name.endswith("config.json")
    if not content.peek(0, 64).lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n").startswith(b"{"):
        return
    if content.size > MAX_JSON_BYTES:
        if in_archive:
            yield "keras-unreadable", f"a configuration of {content.size} bytes"
        return
    raw = content.peek(0, content.size)
    if b"class_name" not in raw and b"\\u" not in raw and b"\0" not in raw[:4]:
        return
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        if in_archive:
            yield "keras-unreadable", "a configuration that is no JSON"
        return
    if isinstance(document, dict) and "class_name" in document and "config" in document:
        yield from judge(document)


def judge(document: object) -> Iterator[Reason]:
    """What speaks against the description of a model, each reason once."""
    told: set[Reason] = set()
    for found in _objects(document):
        for reason in _judge_object(found):
            if reason not in told and len(told) < MAX_TOLD:
                told.add(reason)
                yield reason


def _hdf5(content: Content) -> Iterator[Reason]:
    found = described = False
    with content.open() as stream:
        try:
            for item in json_objects(stream):
                if isinstance(item, bytes):
                    described = True
                elif "class_name" in item:
                    found = True
                    yield from judge(item)
        except ValueError as error:
            yield "keras-unreadable", str(error)
            return
    if described and not found:
        yield "keras-unreadable", "an HDF5 file with a model_config that can't be found as JSON in it"


def _objects(value: object) -> Iterator[dict[str, object]]:
    """Every object in a JSON value. Deep nesting costs no recursion."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            yield item
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item


def _judge_object(item: dict[str, object]) -> Iterator[Reason]:
    name, module, config = item.get("class_name"), item.get("module"), item.get("config")
    registered = item.get("registered_name")
    if not isinstance(name, str):
        return
    settings = config if isinstance(config, dict) else {}
    if name == "__lambda__" or name in _CODE_LAYERS:
        kind = "a Lambda layer" if name in ("Lambda", "__lambda__") else f"a {name} layer"
        yield "keras-lambda", f"a Keras model with {kind}, which holds code that runs when it is loaded"
    if name in ("TFOpLambda", "SlicingOpLambda", "ClassMethod"):
        function = str(settings.get("function", settings.get("symbol")))
        if not _OPERATIONS.fullmatch(function):
            yield "keras-lambda", f"a Keras model with a {name} layer that calls TensorFlow's {_shown(function)}"
    if isinstance(module, str) and not _is_own(module, name, config):
        what = config if name == "function" else name
        yield "keras-import", f"a Keras model that imports {_shown(module)}.{_shown(what)}"
    elif isinstance(registered, str) and ">" in registered:
        yield "keras-import", f"a Keras model that needs code registered as {_shown(registered)}"
    elif ">" in name:
        yield "keras-import", f"a Keras model that needs code registered as {_shown(name)}"
    if name in _LOOKUPS and isinstance(settings.get("vocabulary"), str):
        yield "keras-import", f"a Keras model that reads the file {_shown(settings['vocabulary'])}"


def _is_own(module: str, name: str, config: object) -> bool:
    if module in ("builtins", "__builtin__", "__builtins__"):
        return name == "function" and config in _BUILTIN_FUNCTIONS if isinstance(config, str) else False
    if name == "function" and module == "keras":
        return False
    return module == "" or _OWN_MODULE.fullmatch(module) is not None


def _shown(value: object) -> str:
    return ascii(str(value)[:120])[1:-1]
