"""What a text is taken for when it could be several things, and what may be compared with an upstream."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from modelctl.admission.subject import find_release, resolve_subject
from modelctl.errors import InputError
from modelctl.progress import SILENT
from modelctl.settings import load_workspace
from tests.support.models import tiny_llama
from tests.support.progress import Notes

RELEASE = {
    "apiVersion": "modelctl.dev/v1",
    "kind": "ModelRelease",
    "metadata": {"name": "tiny", "version": "1.0.0"},
    "spec": {"source": {"folder": "model"}},
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tiny_llama(tmp_path / "model")
    folder = tmp_path / "registry" / "tiny" / "1.0.0"
    folder.mkdir(parents=True)
    (folder / "release.yaml").write_text(json.dumps(RELEASE))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_release_is_said_and_then_its_source(root: Path) -> None:
    notes = Notes()
    subject = resolve_subject("tiny@1.0.0", load_workspace(root, environ={}), notes)
    assert subject.release is not None
    assert notes.lines == [
        "tiny@1.0.0 is understood as the release file of tiny@1.0.0",
        "model is understood as folder model",
    ]


def test_a_release_outranks_a_folder_of_its_name_and_says_how_to_name_the_folder(root: Path) -> None:
    tiny_llama(root / "tiny@1.0.0")
    notes = Notes()
    assert find_release("tiny@1.0.0", root, notes) == root / "registry" / "tiny" / "1.0.0" / "release.yaml"
    assert notes.lines == [
        "'tiny@1.0.0' is a release and a folder here: the release is taken; ./tiny@1.0.0 names the folder"
    ]
    assert find_release("./tiny@1.0.0", root) is None


def test_a_folder_that_reads_like_a_release_is_a_folder_when_there_is_none(root: Path) -> None:
    tiny_llama(root / "tiny@2.0.0")
    assert find_release("tiny@2.0.0", root) is None
    with pytest.raises(InputError, match=r"no release tiny@3\.0\.0"):
        find_release("tiny@3.0.0", root)


def test_a_release_names_its_own_upstream(root: Path) -> None:
    with pytest.raises(InputError, match="names its own upstream") as caught:
        resolve_subject("tiny@1.0.0", load_workspace(root, environ={}), SILENT, upstream=f"a/b@{'0' * 40}")
    assert "source.upstream_revision" in str(caught.value.remedy)
