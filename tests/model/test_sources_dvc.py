"""A DVC pointer as a source, up to the `dvc` program: what it pins, what is refused, what is handed on."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelctl.errors import CannotDecideError, InputError, ModelctlError, RefusedError
from modelctl.model import dvc_source
from modelctl.model.dvc_pointer import folder_md5, read_pointer, verify
from modelctl.model.sources import resolve_source
from tests.support.progress import Notes
from tests.support.repos import git_repository

ADDED = """\
outs:
- md5: {md5}
  size: 6
  nfiles: 2
  hash: md5
  path: weights
"""
LAZY = """\
md5: 4c3c52f5a98f2967581759dbaee9fdcb
frozen: true
deps:
- md5: {md5}
  size: 6
  nfiles: 2
  hash: md5
  path: remote://minio/tiny/1.0.0
outs:
- hash: md5
  path: weights
"""
FILES = {"config.json": b"{}", "sub/é.txt": b"a\r\nb"}
MD5S = {"config.json": "99914b932bd37a50b983c5e7c90ae93b", "sub/é.txt": "65d5f03c46e62e3f2babbe712d2ce464"}
FOLDER_MD5 = "75d8dd5b4a4e49dd2c36a20e3ea6a0ba.dir"


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    for path, content in FILES.items():
        file = tmp_path / "weights" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return tmp_path / "weights"


def pointer_file(folder: Path, text: str) -> Path:
    path = folder / "weights.dvc"
    path.write_text(text)
    return path


def test_a_folders_md5_is_the_one_that_dvc_computes() -> None:
    """Golden: the three files and both names come from dvc 3.67.1 (`dvc add`, `dvc import-url --no-download`)."""
    files = {
        "config.json": "99914b932bd37a50b983c5e7c90ae93b",
        "model.safetensors": "dd2ad40ec385a778a559dba044eaefa3",
        "sub/é.txt": "65d5f03c46e62e3f2babbe712d2ce464",
    }
    assert folder_md5(files) == "d622bc77963fa19e2ba92ec74228a84e.dir"
    assert folder_md5(files, tags=True) == "ce0ab4515ef4f9d866e77bff872f5797.dir"


def test_the_bytes_that_a_pointer_names(tmp_path: Path, weights: Path) -> None:
    pointer = read_pointer(pointer_file(tmp_path, ADDED.format(md5=folder_md5(MD5S))))
    assert (pointer.output, pointer.is_folder, pointer.by_tags, pointer.size_bytes) == ("weights", True, False, 6)
    seen: list[float] = []
    verify(pointer, weights, seen.append)
    assert sum(seen) == 6


@pytest.mark.parametrize("change", ["flipped", "missing", "extra", "renamed", "a file"])
def test_any_other_bytes_are_refused(tmp_path: Path, weights: Path, change: str) -> None:
    pointer = read_pointer(pointer_file(tmp_path, ADDED.format(md5=folder_md5(MD5S))))
    config = weights / "config.json"
    match change:
        case "flipped":
            config.write_bytes(b"[}")
        case "missing":
            config.unlink()
        case "extra":
            (weights / "x").touch()
        case "renamed":
            config.rename(weights / "config.JSON")
        case _:
            weights = config
    with pytest.raises(RefusedError) as caught:
        verify(pointer, weights)
    assert caught.value.remedy


def test_etags_hold_when_they_are_md5s_and_decide_nothing_when_not(tmp_path: Path, weights: Path) -> None:
    pointer = read_pointer(pointer_file(tmp_path, LAZY.format(md5=folder_md5(MD5S, tags=True))))
    assert pointer.by_tags
    verify(pointer, weights)
    (weights / "config.json").write_bytes(b"[]")
    with pytest.raises(CannotDecideError, match="names ETags") as caught:
        verify(pointer, weights)
    assert caught.value.remedy == "dvc update weights.dvc: it reads the bytes and names their md5"


def test_a_single_file(tmp_path: Path, weights: Path) -> None:
    text = ADDED.format(md5=MD5S["config.json"]).replace("path: weights", "path: config.json")
    pointer = read_pointer(pointer_file(tmp_path, text))
    assert not pointer.is_folder
    verify(pointer, weights / "config.json")
    with pytest.raises(RefusedError, match="points at a file"):
        verify(pointer, weights)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("path: weights", "path: ../weights", "wanted a name beside the pointer"),
        ("path: weights", "path: /etc", "wanted a name beside the pointer"),
        ("path: weights", "path: .dvc", "wanted a name beside the pointer"),
        ("path: weights", 'path: "a\\nb"', "wanted a name beside the pointer"),
        ("path: weights", "path: 7", "wanted a name beside the pointer"),
        ("outs:", "wdir: ..\nouts:", "'wdir' is set"),
        ("outs:", "cmd: touch x\nouts:", "'cmd' is set"),
        ("  hash: md5\n", "", "no pointer of DVC 3"),
        ("- md5: ", "- md5: no", "where an md5 is wanted"),
        ("- md5: ", "- nomd5: ", "where an md5 is wanted"),
        ("outs:", "outs: []\nouts2:", "0 entries under 'outs'"),
        ("outs:", "outs2:", "found none under 'outs'"),
        ("  nfiles: 2", "  files: []", "lists versions"),
        ("outs:", "deps:\n- path: /etc\nouts:", "imported from '/etc'"),
        ("outs:", "deps:\n- path: file:///etc\nouts:", "wanted remote://"),
        ("outs:", "deps:\n- path: x\n  repo: {url: https://example.org}\nouts:", "imported from 'x'"),
        ("outs:", "outs: &a [*a]\nx:", "an alias"),
        ("outs:", "outs:\nouts:", "duplicate"),
    ],
)
def test_what_is_no_pointer_or_not_followed(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = pointer_file(tmp_path, ADDED.format(md5=FOLDER_MD5).replace(old, new))
    with pytest.raises(InputError, match=words):
        read_pointer(path)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_pointer_or_one_clear_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("pointer") / "weights.dvc"
    path.write_bytes(content)
    with pytest.raises(ModelctlError):
        read_pointer(path)


class TestWithoutTheProgram:
    @pytest.fixture(autouse=True)
    def no_dvc(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dvc_source, "dvc_program", lambda: None)

    def test_the_command_that_installs_it_is_named(self, tmp_path: Path) -> None:
        pointer_file(tmp_path, ADDED.format(md5=FOLDER_MD5))
        notes = Notes()
        with pytest.raises(CannotDecideError, match="dvc is not installed") as caught:
            resolve_source("weights.dvc", base=tmp_path, store=tmp_path / "store", progress=notes)
        assert "pip install 'modelctl[dvc]'" in str(caught.value.remedy)
        assert notes.lines == [
            f"weights.dvc is understood as DVC pointer weights.dvc (md5 {FOLDER_MD5}; in no git commit)"
        ]


def test_the_git_commit_of_a_pointer_is_said(tmp_path: Path) -> None:
    git = git_repository(tmp_path / "repo")
    path = pointer_file(git.root, ADDED.format(md5=FOLDER_MD5))
    commit = git.commit([path], "Point", trailers={})
    assert commit is not None
    pointer = read_pointer(path)
    assert dvc_source.describe_pointer(pointer, "weights.dvc").endswith(f"git {commit[:12]})")
    path.write_text(path.read_text() + "\n")
    assert "changed since git" in dvc_source.describe_pointer(pointer, "weights.dvc")


def test_a_folder_that_holds_a_pointer_names_it(tmp_path: Path) -> None:
    pointer_file(tmp_path, ADDED.format(md5=FOLDER_MD5))
    with pytest.raises(InputError) as caught:
        resolve_source(".", base=tmp_path, store=tmp_path / "store")
    assert caught.value.remedy == "name the DVC pointer: modelctl admit ./weights.dvc"


class TestTheProgram:
    """A program that does what a test says stands in for dvc: what it is given, and what is made of what it leaves."""

    @pytest.fixture
    def repository(self, tmp_path: Path) -> Path:
        git = git_repository(tmp_path / "repo")
        (git.root / ".dvc").mkdir()
        (git.root / ".dvc" / "config").write_text(
            "[core]\n    remote = minio\n    site_cache_dir = /elsewhere\n['remote \"minio\"']\n    url = s3://models\n"
            "    configpath = evil\n['remote \"disk\"']\n    url = ../../disk\n[hydra]\n    enabled = true\n"
        )
        (git.root / ".dvc" / "config.local").write_text("['remote \"minio\"']\n    secret_access_key = s3cret\n")
        pointer_file(git.root, ADDED.format(md5=folder_md5(MD5S)))
        return git.root

    def program(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
        script = tmp_path / "dvc"
        script.write_text(f"#!/bin/sh\n{body}\n")
        script.chmod(0o755)
        monkeypatch.setattr(dvc_source, "dvc_program", lambda: script)

    def test_only_remotes_are_handed_on_and_secrets_do_not_stay(
        self, tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        copies = "mkdir -p weights/sub; printf '{}' > weights/config.json; printf 'a\\r\\nb' > weights/sub/é.txt"
        self.program(
            tmp_path, monkeypatch, f"cp .dvc/config {tmp_path}/given; ls -l .dvc/config > {tmp_path}/mode; {copies}"
        )
        notes = Notes()
        pointer = read_pointer(repository / "weights.dvc")
        folder = dvc_source.fetch_pointer(pointer, tmp_path / "store", notes)
        assert {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} == set(FILES)
        given = (tmp_path / "given").read_text()
        assert "remote = minio" in given
        assert "secret_access_key = s3cret" in given
        assert f"url = {(tmp_path / 'disk').resolve()}" in given
        for left_out in ("configpath", "site_cache_dir", "hydra"):
            assert left_out not in given
        assert (tmp_path / "mode").read_text().startswith("-rw-------")
        assert notes.lines == ['option configpath of remote "minio" in .dvc/config is not handed to dvc']
        assert not [path for path in (tmp_path / "store").rglob("*") if path.name == "config"]
        assert sorted(path.name for path in repository.iterdir()) == [".dvc", ".git", "weights.dvc"]

    def test_other_bytes_are_refused_and_not_kept(
        self, tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.program(tmp_path, monkeypatch, "mkdir weights; printf '[]' > weights/config.json")
        with pytest.raises(RefusedError, match="the pointer names"):
            dvc_source.fetch_pointer(read_pointer(repository / "weights.dvc"), tmp_path / "store", Notes())
        assert list((tmp_path / "store" / "dvc").iterdir()) == []

    def test_its_own_words_are_repeated(
        self, tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.program(tmp_path, monkeypatch, "echo 'ERROR: failed to connect to s3' >&2; exit 255")
        with pytest.raises(CannotDecideError, match="failed to connect to s3") as caught:
            dvc_source.fetch_pointer(read_pointer(repository / "weights.dvc"), tmp_path / "store", Notes())
        assert "dvc pull --verbose weights.dvc" in str(caught.value.remedy)

    def test_a_pointer_outside_a_dvc_repository(
        self, tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.program(tmp_path, monkeypatch, "exit 0")
        (repository / ".dvc").rename(repository / "dvc")
        with pytest.raises(InputError, match=r"no \.dvc folder") as caught:
            dvc_source.fetch_pointer(read_pointer(repository / "weights.dvc"), tmp_path / "store", Notes())
        assert "dvc init" in str(caught.value.remedy)

    def test_a_config_that_is_none(self, tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.program(tmp_path, monkeypatch, "exit 0")
        (repository / ".dvc" / "config").write_text("[core\nremote")
        with pytest.raises(InputError, match="config"):
            dvc_source.fetch_pointer(read_pointer(repository / "weights.dvc"), tmp_path / "store", Notes())
