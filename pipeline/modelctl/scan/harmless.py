"""The exact (module, name) pairs that a pickle of tensors, arrays or a plain estimator needs, and that do nothing but
build data.

A name is not on it when calling it with arguments of an attacker's choice reads or runs anything:
`torch.storage._load_from_bytes` (loads a nested pickle) and `torch.jit` are out for that reason.
"""

from __future__ import annotations

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
    "sklearn._loss._loss": "CyHalfBinomialLoss CyHalfMultinomialLoss CyHalfSquaredError",
    "sklearn._loss.link": "IdentityLink Interval LogitLink MultinomialLogit",
    "sklearn._loss.loss": "HalfBinomialLoss HalfMultinomialLoss HalfSquaredError",
    "sklearn.calibration": "CalibratedClassifierCV _CalibratedClassifier _SigmoidCalibration",
    "sklearn.cluster._kmeans": "KMeans MiniBatchKMeans",
    "sklearn.compose._column_transformer": "ColumnTransformer",
    "sklearn.decomposition._pca": "PCA",
    "sklearn.decomposition._truncated_svd": "TruncatedSVD",
    "sklearn.dummy": "DummyClassifier DummyRegressor",
    "sklearn.ensemble._forest": (
        "RandomForestClassifier RandomForestRegressor ExtraTreesClassifier ExtraTreesRegressor"
    ),
    "sklearn.ensemble._gb": "GradientBoostingClassifier GradientBoostingRegressor",
    "sklearn.feature_extraction.text": "CountVectorizer TfidfTransformer TfidfVectorizer",
    "sklearn.impute._base": "SimpleImputer",
    "sklearn.linear_model._base": "LinearRegression",
    "sklearn.linear_model._coordinate_descent": "ElasticNet Lasso",
    "sklearn.linear_model._logistic": "LogisticRegression",
    "sklearn.linear_model._ridge": "Ridge RidgeClassifier",
    "sklearn.linear_model._stochastic_gradient": "SGDClassifier SGDRegressor",
    "sklearn.naive_bayes": "BernoulliNB GaussianNB MultinomialNB",
    "sklearn.neighbors._classification": "KNeighborsClassifier",
    "sklearn.neighbors._regression": "KNeighborsRegressor",
    "sklearn.neural_network._multilayer_perceptron": "MLPClassifier MLPRegressor",
    "sklearn.neural_network._stochastic_optimizers": "AdamOptimizer SGDOptimizer",
    "sklearn.pipeline": "Pipeline FeatureUnion",
    "sklearn.preprocessing._data": "MaxAbsScaler MinMaxScaler Normalizer RobustScaler StandardScaler",
    "sklearn.preprocessing._encoders": "OneHotEncoder OrdinalEncoder",
    "sklearn.preprocessing._label": "LabelBinarizer LabelEncoder",
    "sklearn.svm._classes": "LinearSVC LinearSVR SVC SVR",
    "sklearn.tree._classes": "DecisionTreeClassifier DecisionTreeRegressor",
    "sklearn.tree._tree": "Tree",
}
_HARMLESS = frozenset((module, name) for module, names in _NAMES.items() for name in names.split())


def is_harmless(module: str, name: str) -> bool:
    """Whether the pair is on the list. A dotted name reaches into what it names, and no such name is on it."""
    return (module, name) in _HARMLESS
