"""joblib's files: arrays between the opcodes are gone over as joblib does, and nothing hides behind them."""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import textwrap

import joblib
import numpy as np
import pytest

from modelctl.scan.harmless_estimators import ESTIMATORS
from modelctl.scan.pickles import walk_file
from modelctl.scan.walked import Pickle
from tests.support.pickles import CALL_0


def dumped(value: object) -> bytes:
    packed = io.BytesIO()
    joblib.dump(value, packed)
    return packed.getvalue()


def walked(content: bytes) -> list[Pickle]:
    return walk_file(io.BytesIO(content))


def refused(content: bytes) -> list[str]:
    return [f"{item.module}.{item.name}" for found in walked(content) for item in found.imports if not item.harmless]


@pytest.mark.parametrize(
    "value",
    [
        {"a": np.arange(7, dtype="float32"), "b": np.ones((2, 3))},
        [np.zeros((0, 4)), np.array(["x", "long"]), np.array(5)],
        np.array([b"R." * 40, b"cposix"]),
        {"structured": np.zeros(3, dtype=[("a", "i4"), ("b", "f8", (2,))])},
        {"objects": np.array([{}, None, "x"], dtype=object), "b": np.arange(3)},
        np.asfortranarray(np.ones((3, 2), dtype="complex64")),
    ],
    ids=["floats", "odd shapes", "bytes", "structured", "objects", "fortran"],
)
def test_arrays_are_gone_over_to_the_very_end(value: object) -> None:
    content = dumped(value)
    found = walked(content)
    assert [item.problem for item in found if item.problem] == []
    assert max(item.end or 0 for item in found) == len(content)
    assert refused(content) == []


def test_a_call_behind_an_array_is_found() -> None:
    content = dumped([np.arange(100, dtype="uint8")])
    assert refused(content[:-1] + CALL_0) == ["posix.system"]


def test_a_call_that_only_pickle_would_see_is_found() -> None:
    """joblib takes the bytes for numbers, Python's own pickle takes them for opcodes."""
    content = dumped([np.frombuffer(b"#" * 80 + bytes(200), dtype="uint8")])
    padding = content.index(b"b\x10" + b"\xff" * 16) + 1  # the number of bytes, and so many
    content = content[:padding] + b")" + CALL_0.ljust(ord(")"), b"N") + content[padding + 17 :]
    assert [item.problem for item in walked(content) if item.problem] == []
    assert "posix.system" in refused(content)


def test_an_array_of_objects_is_a_pickle_of_its_own() -> None:
    content = dumped(np.array([{}], dtype=object))
    inner = content.rindex(b"\x80")
    assert refused(content[:inner] + CALL_0) == ["posix.system"]


def test_an_array_without_a_known_length_is_a_problem() -> None:
    content = dumped(np.arange(3, dtype="int64")).replace(b"\x8c\x02i8", b"\x8c\x02q8")
    assert any(
        "length can't be told" in (item.problem or "") or "length" in (item.problem or "") for item in walked(content)
    )


@pytest.mark.slow
def test_estimators_on_the_list_only_keep_their_parameters() -> None:
    """The reason for which they are on it."""
    from sklearn.base import BaseEstimator

    looked_at = 0
    for module, names in ESTIMATORS.items():
        for name in names.split():
            if name.startswith("_"):  # what holds fitted numbers; its constructor computes
                continue
            found = getattr(importlib.import_module(module), name)
            if not (inspect.isclass(found) and issubclass(found, BaseEstimator) and inspect.isfunction(found.__init__)):
                continue
            looked_at += 1
            tree = ast.parse(textwrap.dedent(inspect.getsource(found.__init__)))
            called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
            allowed = {"super", "super().__init__", "isinstance", "warn", "warnings.warn", "np.finfo"}
            left = {item for item in called - allowed if not item.endswith(("TreeClassifier", "TreeRegressor"))}
            assert not left, (module, name)
    assert looked_at > 150


@pytest.mark.slow
def test_fitted_estimators_pass() -> None:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.compose import ColumnTransformer
    from sklearn.datasets import load_iris
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, VotingClassifier
    from sklearn.linear_model import LogisticRegression, SGDClassifier
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
    from sklearn.svm import SVC

    data, target = load_iris(return_X_y=True)
    columns = ColumnTransformer([("a", StandardScaler(), [0, 1]), ("b", OneHotEncoder(handle_unknown="ignore"), [2])])
    for estimator in (
        RandomForestClassifier(3),
        HistGradientBoostingClassifier(max_iter=3),
        VotingClassifier([("a", LogisticRegression()), ("b", SVC())]),
        KNeighborsClassifier(),
        MLPClassifier((4,), max_iter=2),
        SGDClassifier(),
        CalibratedClassifierCV(LogisticRegression()),
        make_pipeline(columns, LogisticRegression()),
    ):
        content = dumped(estimator.fit(data, target))
        found = walked(content)
        assert refused(content) == [], estimator
        assert [item.problem for item in found if item.problem] == []
        assert found[-1].end == len(content)
