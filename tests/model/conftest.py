"""A local Hub that the tests' calls go to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hub import LocalHub
from tests.support.models import tiny_llama


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LocalHub]:
    """An empty Hub, no token, and no long wait between tries."""
    with LocalHub() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))
        for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_OIDC_RESOURCE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr("modelctl.model.retries.FIRST_WAIT_S", 0.01)
        yield server


@pytest.fixture(scope="session")
def hub_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A tiny model in two shards, a file in a folder and an empty one."""
    folder = tiny_llama(tmp_path_factory.mktemp("hub-model"), shards=2)
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    return files | {"docs/notes.md": b"notes\n", "empty.txt": b""}
