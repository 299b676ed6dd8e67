"""`modelctl pull` as an init container runs it: no git, all from variables, little memory, its exit codes."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from modelctl.registry.store import ObjectStore
from modelctl.services.process import Running
from tests.registry.conftest import a_store
from tests.support.bucket import Placed, overwrite, place
from tests.support.command import modelctl
from tests.support.history import a_served_registry
from tests.support.keys import ssh_key
from tests.support.s3_servers import ACCESS_KEY, SECRET_KEY

pytestmark = pytest.mark.services
MEASURED = """
import sys
from modelctl.cli.main import run
code = run(sys.argv[1:])
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
sys.exit(code)
"""
LIMIT_KIB = 100 << 10


@pytest.fixture
def store(rclone: Running) -> ObjectStore:
    return a_store(rclone.address)


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    """A folder in which nothing is known of the registry."""
    folder = tmp_path / "pod"
    folder.mkdir()
    return folder


@pytest.fixture
def release(store: ObjectStore, tmp_path: Path) -> Placed:
    ssh_key(tmp_path / "key")
    (tmp_path / "signers").write_text(f"ci@example.org {(tmp_path / 'key.pub').read_text()}")
    return place(store, {"config.json": b"{}\n", "model.safetensors": b"\1" * 5000}, key=tmp_path / "key")


def variables(store: ObjectStore, **more: str) -> dict[str, str]:
    return {
        "MODELCTL_STORE_ENDPOINT": store.server.endpoint,
        "MODELCTL_STORE_ACCESS_KEY": ACCESS_KEY,
        "MODELCTL_STORE_SECRET_KEY": SECRET_KEY,
        **more,
    }


def test_an_init_container_pulls_what_its_digest_names(release: Placed, store: ObjectStore, pod: Path) -> None:
    digest = release.served.tree_digest
    source = f"s3://{store.bucket}"
    arguments = ("pull", "tiny@1.0.0", "model", "--from", source, "--digest", digest)
    done = modelctl(*arguments, cwd=pod, env=variables(store))
    assert done.returncode == 0, done.stderr
    assert "tiny@1.0.0: whole and verified against the digest given" in done.stdout
    assert SECRET_KEY not in done.stdout + done.stderr
    again = modelctl(*arguments, "--json", cwd=pod, env=variables(store))
    body = json.loads(again.stdout)
    assert (body["fetched"], len(body["kept"]), body["verified_against"]) == ([], 2, ["the digest given"])


def test_every_way_to_name_a_release(release: Placed, store: ObjectStore, pod: Path, tmp_path: Path) -> None:
    place(store, {"w": b"2"}, version="1.1.0", key=tmp_path / "key")
    trust = variables(store, MODELCTL_SIGNING_ALLOWED=str(tmp_path / "signers"))
    for named, source, wanted in (
        ("tiny@latest", f"s3://{store.bucket}", "tiny@1.1.0"),
        (release.served.tree_digest, f"s3://{store.bucket}", "tiny@1.0.0"),
        ("tiny@1.0.0", f"s3://{store.bucket}/tiny/1.0.0", "tiny@1.0.0"),
    ):
        folder = pod / wanted
        done = modelctl("pull", named, folder, "--from", source, "--json", cwd=pod, env=trust)
        assert done.returncode == 0, done.stderr
        body = json.loads(done.stdout)
        assert (body["release"], body["signed_by"]) == (wanted, ["ci@example.org"])


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("tiny@1.0.0", "x", "--digest", "sha256:" + "0" * 64), 1, "and --digest is sha256:0000"),
        (("tiny@9.9.9", "x"), 2, "has no manifest there"),
        (("tiny@stable:prod", "x"), 2, "stands in git"),
        (("nothing", "x"), 2, "NAME@VERSION"),
        (("tiny@1.0.0", "used"), 1, "thesis.txt; nothing was changed"),
    ],
    ids=["other-digest", "unknown", "channel", "no-reference", "strange-files"],
)
def test_exit_codes(
    release: Placed, store: ObjectStore, pod: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    (pod / "used").mkdir()
    (pod / "used" / "thesis.txt").write_text("years of work")
    done = modelctl("pull", *arguments, "--from", f"s3://{store.bucket}", cwd=pod, env=variables(store))
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr
    assert "next: " in done.stderr


def test_a_store_that_is_not_there_or_refuses_is_three(release: Placed, store: ObjectStore, pod: Path) -> None:
    wrong = variables(store, MODELCTL_STORE_SECRET_KEY="wrong-secret-0")
    refused = modelctl("pull", "tiny@1.0.0", "x", "--from", f"s3://{store.bucket}", cwd=pod, env=wrong)
    assert (refused.returncode, "wrong-secret-0" in refused.stderr) == (3, False), refused.stderr
    overwrite(store, "tiny/1.0.0/config.json", b"[]\n")
    changed = modelctl("pull", "tiny@1.0.0", "x", "--from", f"s3://{store.bucket}", cwd=pod, env=variables(store))
    assert changed.returncode == 1
    assert "tiny/1.0.0/config.json" in changed.stderr
    assert not (pod / "x").exists()


def test_memory_stays_under_a_hundred_mebibytes(store: ObjectStore, pod: Path, tmp_path: Path) -> None:
    ssh_key(tmp_path / "key")
    (tmp_path / "signers").write_text(f"ci@example.org {(tmp_path / 'key.pub').read_text()}")
    block = random.Random(1).randbytes(1 << 20)
    shards = {f"model-{number}.safetensors": block * 48 for number in range(3)}
    place(store, {**shards, "config.json": b"{}"}, key=tmp_path / "key")
    done = subprocess.run(
        [
            *(sys.executable, "-I", "-c", MEASURED, "pull", "tiny@1.0.0", "model", "--quiet"),
            *("--from", f"s3://{store.bucket}", "--signers", str(tmp_path / "signers")),
        ],
        cwd=pod,
        env={"PATH": "/usr/bin:/bin", **variables(store)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "signed" in done.stdout
    assert int(done.stdout.split()[-1]) < LIMIT_KIB


def test_what_an_environment_serves_is_pulled_in_the_registry_repository(store: ObjectStore, tmp_path: Path) -> None:
    registry = a_served_registry(tmp_path / "registry")
    place(store, {"model.safetensors": b"weights"})
    env = variables(store, MODELCTL_STORE_BUCKET=store.bucket)
    done = modelctl("pull", "tiny@stable:prod", tmp_path / "model", "--json", cwd=registry.root, env=env)
    assert done.returncode == 0, done.stderr
    body = json.loads(done.stdout)
    assert (body["release"], body["signed_by"]) == ("tiny@1.0.0", ["test@example.org"])
    assert body["verified_against"][1:] == ["the record in git"]
    canary = modelctl("pull", "tiny@canary:prod", tmp_path / "x", cwd=registry.root, env=env)
    assert (canary.returncode, "tiny@stable:prod is what it serves" in canary.stderr) == (2, True)
    unknown = modelctl("pull", "tiny@stable:staging", tmp_path / "x", cwd=registry.root, env=env)
    assert (unknown.returncode, "it serves nothing" in unknown.stderr) == (2, True)
    path = registry.folder() / "attestation.dsse.json"
    path.write_text(path.read_text().replace('"sig": "', '"sig": "AA'))
    forged = modelctl("pull", "tiny@1.0.0", tmp_path / "x", cwd=registry.root, env=env)
    assert (forged.returncode, "is not the file that the record names" in forged.stderr) == (1, True)
    assert not (tmp_path / "x").exists()
