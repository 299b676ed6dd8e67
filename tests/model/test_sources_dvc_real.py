"""The real DVC and a real S3 server: what `dvc add`, `dvc push` and `dvc import-url` leave is what modelctl admits."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from modelctl.errors import CannotDecideError, RefusedError
from modelctl.git import Git
from modelctl.model.s3_client import S3Client
from modelctl.model.sources import Snapshot, resolve_source
from modelctl.services.process import Running, free_port
from tests.support.command import modelctl
from tests.support.models import tiny_llama
from tests.support.progress import Notes
from tests.support.repos import git_repository
from tests.support.s3_servers import ACCESS_KEY, SECRET_KEY, a_bucket, a_client, put

pytestmark = [pytest.mark.services, pytest.mark.slow]

PROGRAM = Path(__file__).resolve().parents[2] / ".venv-dvc" / "bin" / "dvc"
LOCAL = f"['remote \"minio\"']\n    access_key_id = {ACCESS_KEY}\n    secret_access_key = {SECRET_KEY}\n"


@dataclass(frozen=True, kw_only=True)
class Published:
    """A git repository with two pointers to one model in one bucket."""

    git: Git
    model: dict[str, bytes]
    client: S3Client
    bucket: str

    def key(self, name: str) -> str:
        """Where DVC keeps a file of the model in the bucket: by the md5 of its bytes."""
        md5 = hashlib.md5(self.model[name]).hexdigest()
        return f"files/md5/{md5[:2]}/{md5[2:]}"


@pytest.fixture(scope="module")
def published(rclone: Running, tmp_path_factory: pytest.TempPathFactory) -> Published:
    """`weights.dvc`, added and pushed, and `lazy.dvc`, imported without a download; the keys are in no commit."""
    base = tmp_path_factory.mktemp("dvc")
    client = a_client(rclone.address)
    bucket = a_bucket(client)
    git = git_repository(base / "repo")
    folder = tiny_llama(git.root / "weights")
    (folder / "docs").mkdir()
    (folder / "docs" / "é.txt").write_bytes(b"a\r\nb")
    model = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for name, content in model.items():
        put(client, bucket, f"plain/{name}", content)

    def dvc(*arguments: str) -> None:
        environ = {**os.environ, "HOME": str(base), "DVC_NO_ANALYTICS": "1", "DVC_SITE_CACHE_DIR": str(base / "site")}
        done = subprocess.run(
            [PROGRAM, *arguments], cwd=git.root, env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"dvc {arguments}: {done.stderr}"

    dvc("init", "--quiet")
    (git.root / ".dvc" / "config").write_text(
        f"[core]\n    remote = minio\n['remote \"minio\"']\n    url = s3://{bucket}\n"
        f"    endpointurl = {rclone.address}\n"
    )
    (git.root / ".dvc" / "config.local").write_text(LOCAL)
    dvc("add", "--quiet", "weights")
    dvc("push", "--quiet")
    dvc("import-url", "--quiet", "--no-download", "remote://minio/plain", "lazy")
    shutil.rmtree(folder)
    shutil.rmtree(git.root / ".dvc" / "cache")
    committed = [
        git.root / name for name in (".gitignore", ".dvc/.gitignore", ".dvc/config", "weights.dvc", "lazy.dvc")
    ]
    assert git.commit(committed, "Point at the weights", trailers={})
    return Published(git=git, model=model, client=client, bucket=bucket)


@pytest.fixture
def repository(published: Published, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone with the keys in it, and DVC on PATH."""
    monkeypatch.setenv("PATH", f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    Git(tmp_path).run("clone", "--quiet", str(published.git.root), "clone")
    (tmp_path / "clone" / ".dvc" / "config.local").write_text(LOCAL)
    return tmp_path / "clone"


def resolved(repository: Path, pointer: str = "weights.dvc") -> Snapshot:
    return resolve_source(pointer, base=repository, store=repository.parent / "store", progress=Notes())


def bytes_of(snapshot: Snapshot) -> dict[str, bytes]:
    return {entry.path: snapshot.tree.location(entry.path).read_bytes() for entry in snapshot.tree.files}


def test_what_was_pushed_arrives_byte_for_byte_and_nothing_else_is_touched(
    published: Published, repository: Path
) -> None:
    snapshot = resolved(repository)
    assert bytes_of(snapshot) == published.model
    assert snapshot.description.endswith(f"git {str(published.git.head())[:12]})")
    assert Git(repository).run("status", "--porcelain") == ""
    assert not (repository / ".dvc" / "cache").exists()
    kept = [path for path in (repository.parent / "store").rglob("*") if path.is_file()]
    assert not [path for path in kept if SECRET_KEY.encode() in path.read_bytes()]
    again = resolved(repository)
    assert again.tree.digest == snapshot.tree.digest


def test_a_pointer_that_was_imported_without_a_download(published: Published, repository: Path) -> None:
    assert bytes_of(resolved(repository, "lazy.dvc")) == published.model


def test_the_command_admits_it(repository: Path) -> None:
    done = modelctl(
        "admit", "weights.dvc", "--policy", "demo", "--check", "integrity", cwd=repository,
        env={"PATH": os.environ["PATH"], "HOME": str(repository.parent)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "DVC pointer weights.dvc (md5 " in done.stdout + done.stderr
    assert SECRET_KEY not in done.stdout + done.stderr


def test_without_the_program_nothing_is_decided(repository: Path) -> None:
    path = os.pathsep.join(item for item in os.environ["PATH"].split(os.pathsep) if item != str(PROGRAM.parent))
    done = modelctl(
        "admit", "weights.dvc", "--policy", "demo", "--check", "integrity", cwd=repository, env={"PATH": path}
    )
    assert done.returncode == 3, done.stdout + done.stderr
    assert "dvc is not installed" in done.stderr
    assert "pip install 'modelctl[dvc]'" in done.stderr


def test_a_remote_that_is_gone_decides_nothing(repository: Path) -> None:
    config = repository / ".dvc" / "config"
    lines = [line for line in config.read_text().splitlines() if "endpointurl" not in line]
    config.write_text("\n".join([*lines, f"    endpointurl = http://127.0.0.1:{free_port()}", ""]))
    with pytest.raises(CannotDecideError, match="dvc pull") as caught:
        resolved(repository)
    assert "dvc pull --verbose weights.dvc" in str(caught.value.remedy)


def test_a_wrong_secret_decides_nothing_and_is_not_shown(repository: Path) -> None:
    wrong = "another-secret-77b0"
    (repository / ".dvc" / "config.local").write_text(LOCAL.replace(SECRET_KEY, wrong))
    with pytest.raises(CannotDecideError) as caught:
        resolved(repository)
    assert wrong not in f"{caught.value.message} {caught.value.remedy}"


def test_other_bytes_under_the_right_name_are_refused_and_not_kept(published: Published, repository: Path) -> None:
    """The object of config.json in the bucket is changed; DVC brings it as it is, the pointer's md5 tells."""
    key, whole = published.key("config.json"), published.model["config.json"]
    put(published.client, published.bucket, key, whole.replace(b"{", b"[", 1))
    try:
        with pytest.raises(RefusedError, match="the pointer names"):
            resolved(repository)
    finally:
        put(published.client, published.bucket, key, whole)
    assert bytes_of(resolved(repository)) == published.model


def test_an_object_that_the_remote_lacks_decides_nothing(published: Published, repository: Path) -> None:
    key = published.key("docs/é.txt")
    published.client.minio.remove_object(published.bucket, key)
    try:
        with pytest.raises(CannotDecideError, match="dvc pull"):
            resolved(repository)
    finally:
        put(published.client, published.bucket, key, published.model["docs/é.txt"])
