"""What doctor says of clamd, and the configuration it prints for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelctl.checks.malware import MalwareLimits
from modelctl.cli.diagnosis import _Part, _running_clamd, _signing
from modelctl.cli.main import run
from modelctl.services.clamd_conf import read, service_text
from modelctl.settings import load_workspace
from tests.support.clamd import FalseClamd, real_clamd

POLICY = """\
apiVersion: modelctl.dev/v1
kind: AdmissionPolicy
metadata: {name: small}
spec: {description: small windows, checks: {malware: {window_mib: 64}}}
"""


def test_the_clamd_conf_that_is_printed_suits_the_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "small.yaml").write_text(POLICY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MODELCTL_POLICY", "small")
    assert run(["doctor", "--clamd-conf"]) == 0
    (tmp_path / "clamd.conf").write_text(capsys.readouterr().out)
    found = read(tmp_path / "clamd.conf")
    assert found is not None
    assert found.options["StreamMaxLength"] == "64M"
    assert (tmp_path / "clamd.conf").read_text() == service_text(64 << 20)


@pytest.mark.services
def test_a_clamd_with_small_limits_is_a_lack_with_the_lines_to_change() -> None:
    with real_clamd(replace={"StreamMaxLength": "25M", "AlertExceedsMax": "no"}) as (clamd, _):
        row = _running_clamd(_Part("clamd", "malware"), clamd.address, MalwareLimits())
    assert row.state == "missing"
    assert "does not look at all of a window of 512 MiB" in row.found
    assert "  StreamMaxLength 512M   (now 25M)\n  AlertExceedsMax yes   (now no)\n" in (row.remedy or "")


@pytest.mark.services
def test_a_clamd_without_an_official_database_is_a_warning() -> None:
    with real_clamd() as (clamd, _):
        row = _running_clamd(_Part("clamd", "malware"), clamd.address, MalwareLimits())
    assert (row.state, "freshclam" in (row.remedy or "")) == ("warning", True)


def test_a_server_that_calls_everything_clean_is_no_clamd_to_rely_on() -> None:
    server = FalseClamd()
    try:
        with pytest.raises(Exception, match="does not find the EICAR test file"):
            _running_clamd(_Part("clamd", "malware"), server.address, MalwareLimits())
    finally:
        server.close()


def test_without_a_key_the_library_that_signs_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "modelctl.yaml").write_text("signing: {keyless: true}\n")
    workspace = load_workspace(tmp_path, environ={})
    assert _signing(_Part("signing key", "publish"), workspace).state == "ok"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    row = _signing(_Part("signing key", "publish"), workspace)
    assert (row.state, row.remedy) == ("missing", "pip install 'modelctl[sigstore]'")
