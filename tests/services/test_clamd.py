"""The private clamd starts, scans up to its hard limit and says which signatures it has."""

from __future__ import annotations

import getpass
import io
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from modelctl.errors import CannotDecideError, InputError
from modelctl.scan.clamd import Clamd, Found
from modelctl.scan.proof import prove
from modelctl.scan.windows import Windows
from modelctl.services import clamd as service_module
from modelctl.services import clamd_conf
from modelctl.services.clamd import private_clamd
from modelctl.services.eicar import eicar
from modelctl.services.process import find, running, start, stop
from tests.support.clamd import real_clamd, small_database


@pytest.mark.services
def test_a_private_clamd_starts_finds_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "SYSTEM_DATABASE", tmp_path / "none")
    service = private_clamd(tmp_path / "clamd")
    assert service.detail.startswith("small test database: EICAR only; runs as ")
    with running(service) as state:
        clamd = Clamd(state.address)
        assert clamd.version().database is None
        assert isinstance(clamd.scan(io.BytesIO(eicar())), Found)
        prove(clamd, size_bytes=150 << 20, windows=Windows())
    assert find(service.folder) is None
    with pytest.raises(CannotDecideError):
        Clamd(state.address).version()


@pytest.mark.services
def test_a_folder_with_a_long_path_gets_a_short_socket(tmp_path: Path) -> None:
    folder = tmp_path / ("long " * 30).strip() / "clamd"
    first, second = private_clamd(folder), private_clamd(folder)
    assert first.address == second.address
    assert len(os.fsencode(first.address)) <= 107
    try:
        start(first)
        Clamd(first.address).version()
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
            Clamd(state.address).version()
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
    assert service_module.official_database() is None
    (tmp_path / "daily.cld").touch()
    assert service_module.official_database() == tmp_path
    service = private_clamd(tmp_path / "clamd")
    assert f"signatures of {tmp_path}" in service.detail
    assert f'DatabaseDirectory "{tmp_path}"' in (service.folder / "clamd.conf").read_text()


def test_a_database_of_its_own_is_fetched_by_one_command_and_used_when_newer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, folder = tmp_path / "system", tmp_path / "a b" / "clamd"
    system.mkdir()
    monkeypatch.setattr(service_module, "SYSTEM_DATABASE", system)
    private_clamd(folder)
    command = service_module.fetch_command(folder)
    assert command == f"freshclam --config-file='{folder}/freshclam.conf'"
    own = folder / service_module.OWN_DATABASE
    assert f'DatabaseDirectory "{own}"' in (folder / "freshclam.conf").read_text()
    for place, age_s in ((own, 10), (system, 1000)):
        for name in ("main.cvd", "daily.cvd"):
            (place / name).touch()
            os.utime(place / name, (time.time() - age_s,) * 2)
    assert service_module.fetch_command(folder) is None
    assert private_clamd(folder).detail.startswith(f"signatures of {own}; ")
    (system / "daily.cvd").touch()
    assert private_clamd(folder).detail.startswith(f"signatures of {system}; ")


@pytest.mark.services
def test_freshclam_understands_its_configuration(tmp_path: Path) -> None:
    """It fails at a mirror that is not there, not at the file."""
    private_clamd(tmp_path / "clamd")
    configuration = tmp_path / "clamd" / "freshclam.conf"
    with configuration.open("a") as file:
        file.write("PrivateMirror http://127.0.0.1:1\nConnectTimeout 1\nMaxAttempts 1\n")
    done = subprocess.run(["freshclam", f"--config-file={configuration}"], check=False, capture_output=True, text=True)
    output = done.stdout + done.stderr
    assert done.returncode != 0
    assert "127.0.0.1:1" in output
    assert not re.search("(?i)parse|unknown option", output)


@pytest.mark.services
def test_clamd_starts_with_the_configuration_that_is_printed_and_takes_a_whole_window(tmp_path: Path) -> None:
    with real_clamd(options=clamd_conf.service_options(32 << 20)) as (clamd, _):
        prove(clamd, size_bytes=32 << 20, windows=Windows(size_bytes=32 << 20))
        with pytest.raises(CannotDecideError, match="does not look at the end"):
            prove(clamd, size_bytes=33 << 20, windows=Windows(size_bytes=33 << 20))


@pytest.mark.services
def test_an_emptied_database_folder_is_told_in_clamds_words_and_in_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = small_database(tmp_path / "signatures")
    service = private_clamd(tmp_path / "clamd", database=database)
    (database / "test.ndb").unlink()
    with pytest.raises(CannotDecideError, match="No supported database files found"):
        start(service)
    monkeypatch.setattr(clamd_conf, "DEFAULT_PATHS", (service.folder / "clamd.conf",))
    with pytest.raises(CannotDecideError, match="holds no signatures"):
        Clamd(service.address).version()


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
