"""Whatever happens to a publication (SIGKILL, a dead, full or busy server, a wrong clock), the same command ends it."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import urllib3

from modelctl.errors import ModelctlError, RefusedError
from modelctl.files import write_whole
from modelctl.git import Git
from modelctl.model.s3_faults import StoreError, StoreUnavailableError
from modelctl.registry import recording, sending
from modelctl.registry.manifest import Manifest, manifest_key
from modelctl.registry.multipart import MultipartUpload, open_uploads
from modelctl.registry.records import load_record
from modelctl.registry.sending import PART_BYTES
from modelctl.registry.store import ObjectStore
from modelctl.services.process import Running, free_port, running
from modelctl.services.s3 import s3_server
from tests.registry.conftest import a_store
from tests.support.command import modelctl
from tests.support.publication import Proposal, propose
from tests.support.s3_proxy import Fault, s3_proxy
from tests.support.s3_servers import ACCESS_KEY, SECRET_KEY

pytestmark = pytest.mark.services

FILES = {"config.json": b"{}\n", "model.safetensors": bytes(PART_BYTES) + b"rest", "extra/größe 1.txt": b"", "z": b"z"}
POINTS = 20
# A sitecustomize: what starts a program is noted with all its arguments, whoever starts it and however short it lives.
NOTES_ITS_CHILDREN = """
import os, sys

def note(event, arguments):
    if event in ("subprocess.Popen", "os.posix_spawn", "os.exec", "os.system"):
        with open(os.environ["CHILDREN"], "a", encoding="utf-8") as file:
            file.write(ascii(arguments[:2]) + "\\n")

if "CHILDREN" in os.environ:
    sys.addaudithook(note)
"""


@pytest.fixture
def proposal(tmp_path: Path) -> Proposal:
    return propose(tmp_path / "repository", files=FILES)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "PATIENCE_S", (0.05, 0.1))


def in_a_fork(work: Callable[[], object]) -> int:
    """Do it in a child that nothing of this process follows into; its wait status: 0, 256 × exit code, or a signal."""
    child = os.fork()
    if child == 0:
        code = 9
        try:
            work()
            code = 0
        except ModelctlError as error:
            code = error.exit_code
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


def count_events(patch: pytest.MonkeyPatch, on_event: Callable[[int], None]) -> list[int]:
    """Call `on_event` with its number before and after every request, git command and file of the record."""
    count, lock = [0], threading.Lock()

    def event() -> None:
        with lock:
            count[0] += 1
            on_event(count[0])

    for owner, name in ((urllib3.PoolManager, "urlopen"), (Git, "run"), (recording, "write_whole")):
        original = getattr(owner, name)

        def counted(*arguments: Any, _original: Callable[..., object] = original, **options: Any) -> object:
            event()
            try:
                return _original(*arguments, **options)
            finally:
                event()

        patch.setattr(owner, name, counted)
    return count


def let_end(root: Path) -> None:
    """Wait for what outlives a killed publication for a moment: its git, and the server's work on its last request."""
    for process in psutil.process_iter(["name"]):
        with suppress(psutil.Error):
            if process.info["name"] == "git" and Path(process.cwd()).is_relative_to(root):
                process.wait(30)
    time.sleep(0.2)


def assert_whole(proposal: Proposal, store: ObjectStore) -> None:
    """Bucket, record, commit and tag say the same, and nothing is left lying about."""
    assert {key.removeprefix("tiny/1.0.0/") for key in store.sizes("tiny/1.0.0/")} == set(FILES)
    for path, content in FILES.items():
        assert store.read(f"tiny/1.0.0/{path}") == content
    record = load_record(proposal.root, "tiny", "1.0.0")
    manifest = store.read(manifest_key("tiny", "1.0.0"))
    assert manifest is not None
    assert Manifest.from_json(manifest, name="tiny", version="1.0.0").served == record.served
    git = proposal.git
    [commit] = git.run("log", "--format=%H", "--grep=^Publish").split()
    assert git.run("rev-parse", "tiny@v1.0.0^{commit}").strip() == commit
    assert git.run("status", "--porcelain") == ""
    assert list(open_uploads(store.server, store.bucket, "tiny/1.0.0/model.safetensors")) == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_at_twenty_points_the_same_command_makes_it_whole(
    rclone: Running, moto: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        events = count_events(patch, lambda _: None)
        propose(tmp_path / "counted", files=FILES).publish(_made(rclone.address))
    points = random.Random(20).sample(range(1, events[0] + 1), POINTS)
    assert events[0] > 2 * POINTS
    for number, point in enumerate(points):
        store = _made(rclone.address if number % 2 else moto)
        proposal = propose(tmp_path / str(point), files=FILES)

        def killed(store: ObjectStore = store, proposal: Proposal = proposal, point: int = point) -> None:
            with pytest.MonkeyPatch.context() as patch:
                count_events(patch, lambda now: os.kill(os.getpid(), signal.SIGKILL) if now == point else None)
                proposal.publish(store)

        status = in_a_fork(killed)
        assert status in (0, signal.SIGKILL), f"point {point}: status {status}"  # a retry may move the last points
        let_end(proposal.root)
        if store.read(manifest_key("tiny", "1.0.0")) is not None:  # whole for whoever looks, at once
            for path, content in FILES.items():
                assert store.read(f"tiny/1.0.0/{path}") == content, f"point {point}"
        (proposal.root / ".git" / "index.lock").unlink(missing_ok=True)  # of a git that was killed with its parent
        proposal.publish(store)
        assert_whole(proposal, store)


def _made(endpoint: str) -> ObjectStore:
    store = a_store(endpoint)
    store.ensure_bucket()
    return store


def test_a_server_that_dies_and_comes_back(proposal: Proposal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    service = s3_server(tmp_path / "s3", port=port, access_key=ACCESS_KEY, secret_key=SECRET_KEY)
    store = a_store(service.address, bucket="models")
    with running(service) as first, monkeypatch.context() as patch:
        original = MultipartUpload.put

        def fatal(self: MultipartUpload, number: int, data: memoryview) -> str:
            if number == 2:
                psutil.Process(first.pid).kill()
                psutil.Process(first.pid).wait(60)
            return original(self, number, data)

        patch.setattr(MultipartUpload, "put", fatal)
        with pytest.raises(StoreUnavailableError, match="is not reachable") as caught:
            proposal.publish(store)
        assert "same command again" in str(caught.value.remedy)
    assert [path.name for path in proposal.folder.iterdir()] == ["release.yaml"]
    with running(service):
        assert store.read(manifest_key("tiny", "1.0.0")) is None
        proposal.publish(store)
        assert_whole(proposal, store)


@pytest.mark.parametrize("kind", ["slow-down", "cut"])
def test_a_busy_server_and_lost_answers_are_ridden_out(proposal: Proposal, rclone: Running, kind: Any) -> None:
    """Every third write fails; of those that are cut, the server did the work and the answer is lost."""
    store = _made(rclone.address)
    with s3_proxy(rclone.address, write_fault=lambda n, _: Fault(kind=kind) if n % 3 == 2 else None) as proxy:
        proposal.publish(a_store(proxy.url, bucket=store.bucket))
        assert len(proxy.writes) > 10
    assert_whole(proposal, store)


def test_a_full_disk_of_the_server_is_said_and_leaves_no_release(proposal: Proposal, rclone: Running) -> None:
    store = _made(rclone.address)

    def full(_number: int, request: str) -> Fault | None:
        return Fault(kind="disk-full") if "/tiny/" in request and request.startswith("PUT") else None

    drive = pytest.raises(StoreError, match="No space left on a drive")
    with s3_proxy(rclone.address, write_fault=full) as proxy, drive:
        proposal.publish(a_store(proxy.url, bucket=store.bucket))
    assert store.sizes("tiny/") == {}
    assert [path.name for path in proposal.folder.iterdir()] == ["release.yaml"]
    proposal.publish(store)
    assert_whole(proposal, store)


def test_a_full_disk_here_leaves_no_half_record(
    proposal: Proposal, rclone: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _made(rclone.address)
    original = write_whole

    def full(path: Path, content: str | bytes) -> None:
        if path.name == "weights.dvc":
            raise OSError(28, "No space left on device")
        original(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(recording, "write_whole", full)
        with pytest.raises(OSError, match="No space left"):
            proposal.publish(store)
    assert not (proposal.folder / "record.yaml").exists()
    proposal.publish(store)
    assert_whole(proposal, store)


def test_a_wrong_clock_is_named(proposal: Proposal, rclone: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    import datetime

    store = _made(rclone.address)
    late = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=3)
    with monkeypatch.context() as patch:
        patch.setattr("minio.time.utcnow", lambda: late)
        with pytest.raises(StoreError, match="clocks of this machine and of") as caught:
            proposal.publish(store)
    assert "timedatectl" in str(caught.value.remedy)
    proposal.publish(store)
    assert_whole(proposal, store)


def test_a_wrong_secret_publishes_nothing(proposal: Proposal, rclone: Running) -> None:
    store = _made(rclone.address)
    with pytest.raises(StoreError, match="refused the access key"):
        proposal.publish(a_store(rclone.address, bucket=store.bucket, secret_key="not-the-secret"))
    proposal.publish(store)
    assert_whole(proposal, store)


@pytest.mark.slow
def test_of_two_publishers_of_other_bytes_at_most_one_wins_and_the_other_is_told(moto: str, tmp_path: Path) -> None:
    store = _made(moto)
    rivals = [
        propose(tmp_path / name, files={"config.json": name.encode(), "z": name.encode() * 50}) for name in ("a", "b")
    ]
    statuses: list[int] = []
    threads = [
        threading.Thread(target=lambda rival=rival: statuses.append(in_a_fork(lambda: rival.publish(store))))
        for rival in rivals
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) in ([0, 256], [256, 256])
    content = store.read(manifest_key("tiny", "1.0.0"))
    if content is None:
        rivals[0].publish(store)
        content = store.read(manifest_key("tiny", "1.0.0"))
    assert content is not None
    manifest = Manifest.from_json(content, name="tiny", version="1.0.0")
    for rival in rivals:
        if rival.tree().digest == manifest.served.tree_digest:
            rival.publish(store)
            assert store.read("tiny/1.0.0/z") == (rival.root / "model" / "z").read_bytes()
        else:
            with pytest.raises(RefusedError, match="published already with other bytes"):
                rival.publish(store)


def test_the_secret_is_nowhere(proposal: Proposal, rclone: Running, tmp_path: Path) -> None:
    """Not in what is printed, not in a file that is left, not in any process's arguments."""
    store = _made(rclone.address)
    (proposal.root / "modelctl.yaml").write_text(
        f"policy: demo\nsigning: {{key: key}}\nstore: {{endpoint: '{rclone.address}', bucket: {store.bucket}}}\n"
    )
    (tmp_path / "sitecustomize.py").write_text(NOTES_ITS_CHILDREN)
    children = tmp_path / "children"
    environ = {
        "PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path), "CHILDREN": str(children),
        "MINIO_ACCESS_KEY": ACCESS_KEY, "MINIO_SECRET_KEY": SECRET_KEY,
    }  # fmt: skip
    said = ""
    for arguments in (
        ("publish", proposal.id, "--report", proposal.report, "--json", "result.json"),
        ("config", "show"),
        ("doctor",),
    ):
        done = modelctl(*arguments, cwd=proposal.root, env=environ)
        said += done.stdout + done.stderr
        assert "published" in said
    wrong = modelctl("publish", proposal.id, "--report", proposal.report, cwd=proposal.root,
                     env={**environ, "MINIO_SECRET_KEY": f"{SECRET_KEY}-wrong"})  # fmt: skip
    assert wrong.returncode == 3
    said += wrong.stdout + wrong.stderr
    seen = children.read_text().splitlines()
    assert any("git" in line and "commit" in line for line in seen)
    assert not [line for line in seen if SECRET_KEY in line]
    assert SECRET_KEY not in said
    left = [path for path in proposal.root.rglob("*") if path.is_file()]
    assert (proposal.root / "result.json") in left
    assert not [path for path in left if SECRET_KEY.encode() in path.read_bytes()]
