"""A clamd.conf is read for what would let bytes pass unseen, and the text that is printed has none of it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from modelctl.services import clamd_conf
from modelctl.services.clamd_conf import configuration_of, limits, read, service_text, text

WINDOW = 512 << 20
DEBIAN = (
    "# as Debian's package writes it\nLocalSocket /run/clamav/clamd.ctl\nMaxScanTime 120000\nMaxScanSize 100M\n"
    "MaxFileSize 25M\nStreamMaxLength 25M\nScanPE true\n"
)


def lacks(folder: Path, content: str) -> dict[str, str]:
    (folder / "clamd.conf").write_text(content)
    found = read(folder / "clamd.conf")
    assert found is not None
    return found.lacks(WINDOW, trusted_scan_s=110)


def test_small_defaults_of_a_distribution_are_named(tmp_path: Path) -> None:
    assert lacks(tmp_path, DEBIAN) == {
        "StreamMaxLength": "512M",
        "MaxFileSize": "512M",
        "MaxScanSize": "2147483645",
        "AlertExceedsMax": "yes",
    }


def test_clamds_own_defaults_are_too_small(tmp_path: Path) -> None:
    assert list(lacks(tmp_path, "")) == ["StreamMaxLength", "MaxFileSize", "MaxScanSize", "AlertExceedsMax"]


@pytest.mark.parametrize("content", [text(limits(WINDOW)), service_text(WINDOW), text(limits(clamd_conf.MAX_BYTES))])
def test_what_is_printed_lacks_nothing(tmp_path: Path, content: str) -> None:
    assert lacks(tmp_path, content) == {}


@pytest.mark.parametrize(
    ("line", "change"),
    [
        ("StreamMaxLength 511M", {"StreamMaxLength": "512M"}),
        ("MaxFileSize 524288K", {}),
        ("MaxScanSize 0", {}),
        ("MaxScanTime 100000", {"MaxScanTime": "600000"}),
        ("MaxScanTime 0", {}),
        ("AlertExceedsMax TRUE", {}),
        ("AlertExceedsMax no", {"AlertExceedsMax": "yes"}),
        ("ScanArchive no", {"ScanArchive": "yes"}),
        ("ScanPE false", {"ScanPE": "yes"}),
    ],
)
def test_one_line_too_many(tmp_path: Path, line: str, change: dict[str, str]) -> None:
    assert lacks(tmp_path, text(limits(WINDOW)) + line + "\n") == change


def test_a_configuration_is_known_by_the_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "clamd.conf"
    path.write_text(f'LocalSocket "{tmp_path}/clamd.ctl"\nTCPSocket 3310\n')
    monkeypatch.setattr(clamd_conf, "DEFAULT_PATHS", (tmp_path / "none", path))
    for address in (f"{tmp_path}/clamd.ctl", f"{tmp_path}/x/../clamd.ctl", "127.0.0.1:3310", "[::1]:3310"):
        found = configuration_of(address)
        assert found is not None
        assert found.path == path
    for address in (f"{tmp_path}/other.ctl", "127.0.0.1:3311", "clamav.example:3310"):
        assert configuration_of(address) is None


def test_a_configuration_changed_after_the_start_is_not_what_clamd_runs_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "clamd.conf"
    path.write_text("TCPSocket 3310\n")
    started_at = time.time() - 100
    monkeypatch.setattr(clamd_conf, "_running", lambda: iter([(path, started_at)]))
    found = configuration_of("localhost:3310")
    assert found is not None
    assert not found.loaded
    os.utime(path, (started_at - 1, started_at - 1))
    found = configuration_of("localhost:3310")
    assert found is not None
    assert found.loaded


def test_whether_there_are_signatures(tmp_path: Path) -> None:
    path = tmp_path / "clamd.conf"
    path.write_text(f"DatabaseDirectory {tmp_path}/signatures\n")
    found = read(path)
    assert found is not None
    assert found.has_database is False
    (tmp_path / "signatures").mkdir()
    assert found.has_database is False
    (tmp_path / "signatures" / "daily.cvd").touch()
    assert found.has_database is True


def test_a_file_that_is_not_there_is_none(tmp_path: Path) -> None:
    assert read(tmp_path / "clamd.conf") is None
