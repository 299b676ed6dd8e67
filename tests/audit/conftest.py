"""A registry whose release is served, and copies of it that tests may tamper with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.history import Registry, a_served_registry


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    return a_served_registry(tmp_path_factory.mktemp("served") / "registry")


@pytest.fixture
def registry(served: Registry, tmp_path: Path) -> Registry:
    """A copy that a test may tamper with."""
    return served.copy(tmp_path / "registry")
