"""The private clamd starts, scans up to its hard limit and says which signatures it has."""

from __future__ import annotations

import getpass
import io
import os
import tempfile
from pathlib import Path

import psutil
import pytest

from modelctl.errors import CannotDecideError, InputError
from modelctl.scan.clamd import Clamd, Found
from modelctl.scan.proof import prove
from modelctl.scan.windows import Windows, eicar
from modelctl.services import clamd as service_module
from modelctl.services.clamd import private_clamd
from modelctl.services.process import find, running, start, stop


@pytest.mark.services
def test_a_private_clamd_starts_finds_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "SYSTEM_DATABASE", tmp_path / "none")
    service = private_clamd(tmp_path / "clamd")
    assert service.detail.startswith("small test database: EICAR only; runs as ")
    with running(service) as state:
        clamd = Clamd(state.address)
        clamd.ping()
        assert clamd.version().database is None
        assert isinstance(clamd.scan(io.BytesIO(eicar())), Found)
        prove(clamd, size_bytes=150 << 20, windows=Windows())
    assert find(service.folder) is None
    with pytest.raises(CannotDecideError):
        Clamd(state.address).ping()


@pytest.mark.services
def test_a_folder_with_a_long_path_gets_a_short_socket(tmp_path: Path) -> None:
    folder = tmp_path / ("long " * 30).strip() / "clamd"
    first, second = private_clamd(folder), private_clamd(folder)
    assert first.address == second.address
    assert len(os.fsencode(first.address)) <= 107
    try:
        start(first)
        Clamd(first.address).ping()
    finally:
        stop(folder)
        Path(first.address).unlink(missing_ok=True)
        Path(first.address).parent.rmdir()


@pytest.mark.services
def test_root_hands_its_rights_over_where_the_folder_can_be_reached() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        service = private_clamd(Path(folder) / "clamd")
        with running(service) as state:
            user = psutil.Process(state.pid).username()
            Clamd(state.address).ping()
    assert service.detail.endswith(f"runs as {user}")
    assert user == ("clamav" if os.getuid() == 0 else getpass.getuser())


@pytest.mark.services
def test_broken_signatures_fail_with_clamds_own_words(tmp_path: Path) -> None:
    database = tmp_path / "signatures"
    database.mkdir()
    (database / "broken.ndb").write_text("no signature\n")
    with pytest.raises(CannotDecideError, match=r"(?i)malformed|ended"):
        start(private_clamd(tmp_path / "clamd", database=database))


def test_the_system_database_is_used_when_both_parts_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "SYSTEM_DATABASE", tmp_path)
    (tmp_path / "main.cvd").touch()
    assert service_module.system_database() is None
    (tmp_path / "daily.cld").touch()
    assert service_module.system_database() == tmp_path
    service = private_clamd(tmp_path / "clamd")
    assert f"signatures of {tmp_path}" in service.detail
    assert f'DatabaseDirectory "{tmp_path}"' in (service.folder / "clamd.conf").read_text()


def test_an_empty_database_folder_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no folder with signatures"):
        private_clamd(tmp_path / "clamd", database=tmp_path / "empty")


def test_a_path_that_the_configuration_cannot_name_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't name this path"):
        private_clamd(tmp_path / 'with "quotes"')


def test_a_missing_program_names_the_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "clamd_program", lambda: None)
    with pytest.raises(CannotDecideError) as caught:
        private_clamd(tmp_path)
    assert "clamav-daemon" in (caught.value.remedy or "")
