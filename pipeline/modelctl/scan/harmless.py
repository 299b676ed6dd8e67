"""The exact (module, name) pairs that a pickle of tensors, arrays or a plain estimator needs, and that do nothing but
build data.

A name is not on it when calling it with arguments of an attacker's choice reads or runs anything:
`torch.storage._load_from_bytes` (loads a nested pickle) and `torch.jit` are out for that reason. Some may be named and
not called, or called with some arguments only; `may_be_called` tells.
"""

from __future__ import annotations

from modelctl.scan.harmless_estimators import ESTIMATORS
from modelctl.scan.values import Name, array_type

_BUILTINS = (
    "bool bytearray bytes complex dict float frozenset int list object range set slice str tuple long unicode xrange"
)
_TORCH_STORAGES = " ".join(
    f"{kind}Storage"
    for kind in (
        *("BFloat16", "Bool", "Byte", "Char", "ComplexDouble", "ComplexFloat", "Double", "Float", "Half"),
        *("Int", "Long", "QInt8", "QInt32", "QUInt8", "Short"),
    )
)
_TORCH_TYPES = (
    "Size Tensor device dtype bfloat16 bool complex64 complex128 float16 float32 float64 float8_e4m3fn "
    "float8_e5m2 int8 int16 int32 int64 uint8 uint16 uint32 uint64 qint8 quint8 "
    "per_tensor_affine per_channel_affine strided"
)
_NUMPY_TYPES = (
    "dtype ndarray bool_ bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 "
    "float64 complex64 complex128 str_ bytes_"
)

_NAMES: dict[str, str] = {
    "builtins": _BUILTINS,
    "__builtin__": _BUILTINS,
    "collections": "OrderedDict defaultdict Counter deque",
    "copyreg": "_reconstructor",
    "copy_reg": "_reconstructor",
    "_codecs": "encode",
    "datetime": "date datetime time timedelta timezone",
    "decimal": "Decimal",
    "fractions": "Fraction",
    "pathlib": "PosixPath PurePosixPath",
    "uuid": "UUID",
    "torch": f"{_TORCH_STORAGES} {_TORCH_TYPES}",
    "torch._utils": (
        "_rebuild_tensor _rebuild_tensor_v2 _rebuild_parameter _rebuild_parameter_with_state _rebuild_qtensor "
        "_rebuild_sparse_tensor _rebuild_device_tensor_from_numpy _rebuild_meta_tensor_no_storage"
    ),
    "torch._tensor": "_rebuild_from_type_v2",
    "torch.nn.parameter": "Parameter Buffer",
    "torch.storage": "TypedStorage UntypedStorage",
    "torch.serialization": "_get_layout",
    "numpy": _NUMPY_TYPES,
    "numpy.core.multiarray": "_reconstruct scalar",
    "numpy._core.multiarray": "_reconstruct scalar",
    "numpy.core.numeric": "_frombuffer",
    "numpy._core.numeric": "_frombuffer",
    "numpy.random._pickle": "__bit_generator_ctor __generator_ctor __randomstate_ctor",
    "numpy.random._mt19937": "MT19937",
    "numpy.random._pcg64": "PCG64 PCG64DXSM",
    "numpy.random.bit_generator": "SeedSequence __pyx_unpickle_SeedSequence",
    "scipy.sparse._csr": "csr_matrix csr_array",
    "scipy.sparse._csc": "csc_matrix csc_array",
    "joblib.numpy_pickle": "NumpyArrayWrapper",
    **ESTIMATORS,
}
_HARMLESS = frozenset((module, name) for module, names in _NAMES.items() for name in names.split())

_NOT_CALLED = frozenset(
    {("numpy", "ndarray"), ("torch", "Tensor"), ("torch.storage", "TypedStorage"), ("torch.storage", "UntypedStorage")}
) | {("torch", name) for name in _TORCH_STORAGES.split()}
"""Classes that files name and never call. `numpy.ndarray` takes any bytes for pointers when it is called with a type of
objects and a buffer, `torch.Tensor` a number for a pointer."""


def is_harmless(module: str, name: str) -> bool:
    """Whether the pair is on the list. A dotted name reaches into what it names, and no such name is on it."""
    return (module, name) in _HARMLESS


def may_be_called(callee: Name, arguments: object) -> bool:
    """Whether a harmless name stays so when it is called with these arguments, as far as they were followed.

    Those that call or build what they are given are held to what real files give them.
    """
    pair = (callee.module, callee.name)
    given = arguments if isinstance(arguments, tuple) else ()
    if pair in _NOT_CALLED:
        return False
    if pair == ("torch._tensor", "_rebuild_from_type_v2"):
        return bool(given) and isinstance(given[0], Name) and given[0].module == "torch._utils"
    if callee.name == "_reconstructor":
        classes = given[:2]
        return len(classes) == 2 and all(
            isinstance(item, Name) and item.module.partition(".")[0] not in ("numpy", "torch") for item in classes
        )
    if callee.name == "scalar":  # of a type of objects, it hands back the very object it is given
        kind = array_type(given[0]) if given else None
        return kind is not None and not kind.objects
    return True
