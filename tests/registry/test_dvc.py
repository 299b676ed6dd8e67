"""`weights.dvc`, read by DVC itself: a fresh clone brings the very bytes, and modelctl sees when they are others."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from modelctl.documents import load_document, parse_yaml
from modelctl.errors import InputError, RefusedError
from modelctl.git import Git
from modelctl.model.dvc_pointer import read_pointer, verify
from modelctl.registry.card import Card
from modelctl.registry.dvc import ensure_remote
from modelctl.registry.sending import PART_BYTES
from modelctl.registry.store import ObjectStore
from tests.registry.conftest import a_store
from tests.support.publication import propose
from tests.support.repos import git_repository
from tests.support.s3_servers import ACCESS_KEY, SECRET_KEY

DVC = Path(__file__).resolve().parents[2] / ".venv-dvc" / "bin" / "dvc"
NOWHERE = a_store("http://127.0.0.1:9", bucket="models")


def dvc(root: Path, home: Path, *arguments: str) -> str:
    environ = {
        "PATH": os.environ["PATH"], "HOME": str(home), "DVC_NO_ANALYTICS": "1",
        "DVC_SITE_CACHE_DIR": str(home / "site"),
        "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    }  # fmt: skip
    done = subprocess.run([DVC, *arguments], cwd=root, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.services
@pytest.mark.slow
@pytest.mark.parametrize(("server", "keeps_etags"), [("store", False), ("strict_store", True)])
def test_a_fresh_clone_brings_the_very_bytes(
    server: str, keeps_etags: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store: ObjectStore = request.getfixturevalue(server)
    files = {
        "README.md": b"---\nlicense: mit\n---\n# Tiny\n", "config.json": b"{}\n", "extra/é 1.txt": b"",
        "model.safetensors": os.urandom(PART_BYTES + 5),
    }  # fmt: skip
    proposal = propose(tmp_path / "repo", files=files)
    proposal.publish(store)
    assert load_document(proposal.folder / "card.yaml", Card).licenses == ("mit",)
    Git(tmp_path).run("clone", "--quiet", str(proposal.root), "clone")
    clone = tmp_path / "clone"
    pointer = clone / "registry" / "tiny" / "1.0.0" / "weights.dvc"
    dvc(clone, tmp_path, "pull", str(pointer.relative_to(clone)))
    weights = pointer.with_name("weights")
    assert {p.relative_to(weights).as_posix(): p.read_bytes() for p in weights.rglob("*") if p.is_file()} == files
    assert Git(clone).run("status", "--porcelain") == ""

    dvc(clone, tmp_path, "import-url", "--no-download", "remote://minio/tiny/1.0.0", "theirs")
    theirs = parse_yaml((clone / "theirs.dvc").read_text(), origin="it")
    ours = parse_yaml(pointer.read_text(), origin="it")
    if not keeps_etags:  # such a server reads every byte to list a file that came in parts, and DVC needs no md5 of it
        del theirs["deps"][0]["md5"]
    assert ours["deps"] == theirs["deps"]
    assert "changed deps" not in dvc(clone, tmp_path, "status", str(pointer.relative_to(clone)))

    verify(read_pointer(pointer), weights)
    (weights / "config.json").unlink()
    (weights / "config.json").write_bytes(b"[]\n")
    with pytest.raises(RefusedError, match="the pointer names sha256:"):
        verify(read_pointer(pointer), weights)


class TestRemote:
    def test_a_repository_without_dvc_gets_one_remote_and_no_key(self, tmp_path: Path) -> None:
        name, written = ensure_remote(tmp_path, NOWHERE)
        assert name == "minio"
        assert [path.relative_to(tmp_path).as_posix() for path in written] == [".dvc/config", ".dvc/.gitignore"]
        text = (tmp_path / ".dvc" / "config").read_text()
        assert "endpointurl = http://127.0.0.1:9" in text
        assert SECRET_KEY not in text
        assert ACCESS_KEY not in text
        assert ensure_remote(tmp_path, NOWHERE) == ("minio", ())

    @pytest.mark.parametrize(
        ("config", "name", "kept"),
        [
            ("['remote \"ours\"']\n    url = s3://models/\n", "ours", True),
            ("[core]\n    analytics = false\n['remote \"x\"']\n    url = s3://x\n", "minio", False),
            ("[core]\n    remote = minio\n['remote \"minio\"']\n    url = s3://other\n", "minio-models", False),
        ],
    )
    def test_what_is_there_is_kept(self, tmp_path: Path, config: str, name: str, kept: bool) -> None:
        path = tmp_path / ".dvc" / "config"
        path.parent.mkdir()
        path.write_text(config)
        found, written = ensure_remote(tmp_path, NOWHERE)
        assert found == name
        assert (path.read_text() == config) == kept == (written == ())
        for line in config.splitlines():
            assert line in path.read_text().splitlines()

    def test_a_configuration_that_can_not_be_read(self, tmp_path: Path) -> None:
        (tmp_path / ".dvc").mkdir()
        (tmp_path / ".dvc" / "config").write_text("url = x\n")
        with pytest.raises(InputError, match="config"):
            ensure_remote(tmp_path, NOWHERE)


@pytest.mark.services
@pytest.mark.slow
def test_dvc_reads_the_configuration_that_is_written(tmp_path: Path) -> None:
    for number, config in enumerate(["", "[core]\n    analytics = false\n['remote \"x\"']\n    url = s3://x\n"]):
        git = git_repository(tmp_path / str(number))
        (git.root / ".dvc").mkdir()
        (git.root / ".dvc" / "config").write_text(config)
        ensure_remote(git.root, NOWHERE)
        assert "s3://models" in dvc(git.root, tmp_path, "remote", "list")
        assert dvc(git.root, tmp_path, "config", "core.remote").strip() == "minio"


def test_a_changed_digest_in_a_pointer_is_an_error(tmp_path: Path) -> None:
    pointer = tmp_path / "weights.dvc"
    md5 = "0" * 32 + ".dir"
    pointer.write_text(
        f"deps: [{{md5: {md5}, hash: md5, path: 'remote://minio/a/1'}}]\nouts: [{{hash: md5, path: weights}}]\n"
        "meta: {modelctl: {tree_digest: nonsense}}\n"
    )
    with pytest.raises(InputError, match=r"meta\.modelctl\.tree_digest"):
        read_pointer(pointer)
