"""The Hub as a source, against a local Hub with faults."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelctl.errors import CannotDecideError, InputError, ModelctlError, RefusedError
from modelctl.model.hub import is_plain_path
from modelctl.model.sources import Snapshot, resolve_source
from modelctl.model.tree import hash_file
from tests.support.hub import LocalHub
from tests.support.models import tiny_llama

REPO = "acme/tiny"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tiny_llama(tmp_path_factory.mktemp("model"), shards=2)
    return {path.name: path.read_bytes() for path in folder.iterdir()} | {"docs/notes.md": b"notes\n", "empty.txt": b""}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LocalHub]:
    with LocalHub() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "no-token"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield server


def resolve(text: str, tmp_path: Path) -> Snapshot:
    return resolve_source(text, base=tmp_path, store=tmp_path / "store")


def test_every_file_arrives_whole_with_the_listing_attached(
    hub: LocalHub, files: dict[str, bytes], tmp_path: Path
) -> None:
    commit = hub.push(REPO, files)
    snapshot = resolve(REPO, tmp_path)
    assert snapshot.kind == "hub"
    assert snapshot.description == f"Hub {REPO}@{commit}"
    assert {entry.path: (snapshot.tree.root / entry.path).read_bytes() for entry in snapshot.tree.files} == files
    assert snapshot.upstream is not None
    assert snapshot.upstream.commit == commit
    assert set(snapshot.upstream.files) == set(files)


def test_a_branch_that_moves_after_the_listing_changes_nothing(
    hub: LocalHub, files: dict[str, bytes], tmp_path: Path
) -> None:
    first = hub.push(REPO, files)
    hub.faults.after_listing = lambda: hub.push(REPO, files | {"config.json": b"{}"})
    snapshot = resolve(REPO, tmp_path)
    assert hub.repositories[REPO].branches["main"] != first
    assert snapshot.description.endswith(first)
    assert (snapshot.tree.root / "config.json").read_bytes() == files["config.json"]
    assert not [line for line in hub.requests if "/main" in line and "revision" not in line]


def test_a_pinned_commit_is_asked_for_as_it_is(hub: LocalHub, files: dict[str, bytes], tmp_path: Path) -> None:
    first = hub.push(REPO, files)
    hub.push(REPO, files | {"config.json": b"{}"})
    assert resolve(f"{REPO}@{first}", tmp_path).description.endswith(first)


@pytest.mark.parametrize("name", ["model-00001-of-00002.safetensors", "config.json"])
@pytest.mark.parametrize("fault", ["flipped", "longer"])
def test_changed_bytes_are_refused_while_they_arrive(
    hub: LocalHub, files: dict[str, bytes], tmp_path: Path, name: str, fault: str
) -> None:
    hub.push(REPO, files)
    getattr(hub.faults, fault).add(name)
    with pytest.raises(RefusedError, match=name):
        resolve(REPO, tmp_path)
    assert not list((tmp_path / "store").rglob(".*")), "a temporary file is left behind"
    assert not (tmp_path / "store" / "snapshots").exists()


def test_a_transfer_that_breaks_once_is_tried_again(hub: LocalHub, files: dict[str, bytes], tmp_path: Path) -> None:
    hub.push(REPO, files)
    hub.faults.cut["model-00001-of-00002.safetensors"] = 1
    assert "model-00001-of-00002.safetensors" in resolve(REPO, tmp_path).tree.by_path


def test_a_transfer_that_always_breaks_decides_nothing(
    hub: LocalHub, files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modelctl.model.download.ATTEMPTS", 1)
    hub.push(REPO, files)
    hub.faults.cut["config.json"] = 9
    with pytest.raises(CannotDecideError, match=r"config\.json: \d+ of \d+ bytes") as caught:
        resolve(REPO, tmp_path)
    assert caught.value.remedy == "run the same command again: finished files are kept"


def test_a_finished_file_is_not_sent_again_and_a_damaged_one_is(
    hub: LocalHub, files: dict[str, bytes], tmp_path: Path
) -> None:
    hub.push(REPO, files)
    snapshot = resolve(REPO, tmp_path)
    hub.requests.clear()
    again = resolve(REPO, tmp_path)
    assert again.tree.digest == snapshot.tree.digest
    assert not [line for line in hub.requests if "/resolve/" in line]

    blob = tmp_path / "store" / "blobs" / hash_file(snapshot.tree.root / "model-00001-of-00002.safetensors")
    content = bytearray(blob.read_bytes())
    content[-1] ^= 1
    blob.chmod(0o644)
    blob.write_bytes(content)
    assert resolve(REPO, tmp_path).tree.digest == snapshot.tree.digest
    assert [line for line in hub.requests if "/resolve/" in line] == [
        f"GET /{REPO}/resolve/{hub.repositories[REPO].branches['main']}/model-00001-of-00002.safetensors"
    ]


def test_a_stray_file_in_the_kept_snapshot_is_removed(hub: LocalHub, files: dict[str, bytes], tmp_path: Path) -> None:
    hub.push(REPO, files)
    snapshot = resolve(REPO, tmp_path)
    (snapshot.tree.root / "json.py").write_text("boom = 1\n")
    assert resolve(REPO, tmp_path).tree.digest == snapshot.tree.digest


@pytest.mark.parametrize(
    ("error", "kind", "words", "remedy"),
    [
        ((403, "GatedRepo"), CannotDecideError, "gated", "export HF_TOKEN="),
        ((401, "GatedRepo"), CannotDecideError, "gated", "export HF_TOKEN="),
        ((404, "RepoNotFound"), InputError, "no repository acme/tiny", "spelling"),
        ((401, ""), InputError, "no repository acme/tiny, or it is private", "HF_TOKEN"),
        ((404, "RevisionNotFound"), InputError, "no revision 'main'", "tree/main"),
        ((500, ""), CannotDecideError, "failed", "again later"),
    ],
)
def test_each_refusal_of_the_hub_has_its_own_words(
    hub: LocalHub, tmp_path: Path, error: tuple[int, str], kind: type[ModelctlError], words: str, remedy: str
) -> None:
    hub.faults.repo_error = error
    with pytest.raises(kind, match=words) as caught:
        resolve(REPO, tmp_path)
    assert remedy in (caught.value.remedy or "")


def test_a_rate_limit_says_how_long_to_wait(hub: LocalHub, tmp_path: Path) -> None:
    hub.faults.repo_error = (429, "")
    with pytest.raises(CannotDecideError, match="429") as caught:
        resolve(REPO, tmp_path)
    assert "wait 7 s" in (caught.value.remedy or "")


def test_a_refused_token_is_named(hub: LocalHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    hub.faults.repo_error = (401, "")
    with pytest.raises(CannotDecideError, match="refuses the token in HF_TOKEN"):
        resolve(REPO, tmp_path)


def test_the_token_is_shown_to_the_hub(
    hub: LocalHub, files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    hub.push(REPO, files)
    resolve(REPO, tmp_path)
    assert set(hub.tokens) == {"Bearer hf_right"}


def test_no_network_is_one_clear_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(CannotDecideError, match=r"cannot reach http://127\.0\.0\.1:9 for acme/tiny") as caught:
        resolve(REPO, tmp_path)
    assert "hf download acme/tiny --revision main" in (caught.value.remedy or "")


def test_bytes_of_another_commit_decide_nothing(hub: LocalHub, files: dict[str, bytes], tmp_path: Path) -> None:
    hub.push(REPO, files)
    hub.faults.wrong_commit = True
    with pytest.raises(CannotDecideError, match="asked for"):
        resolve(REPO, tmp_path)


@pytest.mark.parametrize("path", ["../config.json", "/etc/x", "a//b", "a/../b", "C:x", "a\\b", "a\nb", ".", "a/./b"])
def test_a_listing_that_leaves_the_repository_is_refused(
    hub: LocalHub, files: dict[str, bytes], tmp_path: Path, path: str
) -> None:
    hub.push(REPO, files)
    hub.faults.listed_paths["config.json"] = path
    with pytest.raises(RefusedError, match="no path inside a repository"):
        resolve(REPO, tmp_path)
    assert not is_plain_path(path)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"size": None}, "gives no size for config.json"),
        ({"size": True}, "gives no size for config.json"),
        ({"oid": "main"}, "gives no hash for config.json"),
        ({"lfs": {"oid": "short", "size": 1, "pointerSize": 1}}, "gives no hash for config.json"),
    ],
)
def test_a_listing_without_size_or_hash_decides_nothing(
    hub: LocalHub, files: dict[str, bytes], tmp_path: Path, changed: dict[str, object], words: str
) -> None:
    hub.push(REPO, files)
    hub.faults.listed_as["config.json"] = changed
    with pytest.raises(CannotDecideError, match=words):
        resolve(REPO, tmp_path)


@pytest.mark.parametrize(
    ("what", "answer", "words"),
    [
        ("tree", {"error": "x"}, "did not answer with a list"),
        ("tree", ["x"], "did not answer with a list"),
        ("revision", {"id": REPO, "sha": "main", "siblings": []}, "resolved acme/tiny@main to 'main'"),
    ],
)
def test_a_server_that_is_no_hub_decides_nothing(
    hub: LocalHub, files: dict[str, bytes], tmp_path: Path, what: str, answer: object, words: str
) -> None:
    hub.push(REPO, files)
    hub.faults.answer_instead[what] = answer
    with pytest.raises(CannotDecideError, match=words):
        resolve(REPO, tmp_path)


def test_a_commit_that_resolves_to_another_decides_nothing(
    hub: LocalHub, files: dict[str, bytes], tmp_path: Path
) -> None:
    commit = hub.push(REPO, files)
    hub.faults.answer_instead["revision"] = {"id": REPO, "sha": "0" * 40, "siblings": []}
    with pytest.raises(CannotDecideError, match="not that commit"):
        resolve(f"{REPO}@{commit}", tmp_path)


def test_a_malformed_id_and_offline_mode_have_their_own_words(
    hub: LocalHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="no Hub id"):
        resolve("acme/tiny--x", tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(CannotDecideError, match="HF_HUB_OFFLINE is set"):
        resolve(REPO, tmp_path)


def test_a_repository_without_a_model_is_refused_before_it_is_downloaded(hub: LocalHub, tmp_path: Path) -> None:
    hub.push(REPO, {"README.md": b"data only"})
    with pytest.raises(InputError, match="not a model repository"):
        resolve(REPO, tmp_path)
    assert not [line for line in hub.requests if "/resolve/" in line]


def test_a_full_disk_is_said_before_the_download(
    hub: LocalHub, files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.push(REPO, files)
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 10})())
    with pytest.raises(CannotDecideError, match=r"0\.0 GB free") as caught:
        resolve(REPO, tmp_path)
    assert "MODELCTL_STATE_DIR" in (caught.value.remedy or "")


def test_ctrl_c_ends_a_stalled_download_at_once_and_leaves_nothing_half_done(
    hub: LocalHub, files: dict[str, bytes], tmp_path: Path
) -> None:
    hub.push(REPO, files)
    hub.faults.stalled = {"model-00001-of-00002.safetensors", "config.json"}
    program = (
        "import pathlib, sys; from modelctl.model.sources import resolve_source; "
        f"resolve_source({REPO!r}, base=pathlib.Path(), store=pathlib.Path(sys.argv[1]))"
    )
    child = subprocess.Popen([sys.executable, "-c", program, tmp_path / "store"], stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 60
        while sum("/lfs/" in line or "config.json" in line for line in hub.requests) < 3:
            assert time.monotonic() < deadline, "the child never began to download"
            assert child.poll() is None
            time.sleep(0.05)
        time.sleep(0.3)
        begun = time.monotonic()
        child.send_signal(signal.SIGINT)
        _, words = child.communicate(timeout=20)
        assert time.monotonic() - begun < 10
    finally:
        child.kill()
    assert child.returncode != 0
    assert b"KeyboardInterrupt" in words
    assert not list((tmp_path / "store").rglob(".*"))
    assert not (tmp_path / "store" / "snapshots").exists()
