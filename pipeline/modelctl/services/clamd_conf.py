"""What clamd has to be told so that nothing passes unseen: the lines of a clamd.conf, and what a given one lacks.

One place for them: the private clamd is started with these lines, `modelctl doctor --clamd-conf` prints them, and a
message about limits that are too small names those to change. clamd.conf(5) explains each option.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

MAX_BYTES = 2147483645
"""The most that clamd scans of one file, whatever its configuration says."""
FRESHCLAM = "sudo freshclam, then restart clamd: sudo systemctl restart clamav-daemon, or modelctl services down and up"
"""What to do about signatures that are not there or too old."""
DEFAULT_PATHS = tuple(
    Path(path)
    for path in (
        "/etc/clamav/clamd.conf",
        "/etc/clamd.d/scan.conf",
        "/etc/clamd.conf",
        "/usr/local/etc/clamav/clamd.conf",
    )
)
"""Debian, Fedora, Arch, FreeBSD."""
CLOCK_STEP_S = 2.0
"""The kernel tells the start of a process to a second, roughly."""
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_DEFAULT_BYTES = {"StreamMaxLength": 100 << 20, "MaxFileSize": 100 << 20, "MaxScanSize": 400 << 20}
_DEFAULT_SCAN_TIME_MS = 120_000
SERVING = {"MaxThreads": "4", "ReadTimeout": "600", "CommandReadTimeout": "30", "ExitOnOOM": "yes"}
"""How clamd treats its clients: two scan at a time, and others may be there."""
_PARSERS = ("Archive", "ELF", "HTML", "HWP3", "Mail", "OLE2", "PDF", "PE", "SWF", "XMLDOCS")
"""Each has an option `Scan…`, on by default; off, clamd does not look into such files and says OK."""


def limits(window_bytes: int) -> dict[str, str]:
    """The options that decide how much clamd looks at, for streams of up to `window_bytes`."""
    size = _size_text(window_bytes)
    return {
        "StreamMaxLength": size,
        "MaxFileSize": size,
        "MaxScanSize": str(MAX_BYTES),
        "MaxScanTime": "600000",
        "MaxRecursion": "30",
        "MaxFiles": "0",
        "AlertExceedsMax": "yes",
        "AlertEncrypted": "yes",
    }


def text(options: Mapping[str, str]) -> str:
    """A clamd.conf."""
    return "".join(f"{name} {value}\n" for name, value in options.items())


def service_options(window_bytes: int) -> dict[str, str]:
    """All options of a clamd that is a service of this machine, with Debian's paths and user."""
    return {
        "LocalSocket": "/run/clamav/clamd.ctl",
        "LocalSocketMode": "660",
        "FixStaleSocket": "yes",
        "User": "clamav",
        "DatabaseDirectory": "/var/lib/clamav",
        "LogFile": "/var/log/clamav/clamav.log",
        "LogTime": "yes",
        **limits(window_bytes),
        **SERVING,
    }


def service_text(window_bytes: int) -> str:
    """A whole clamd.conf of those options."""
    return (
        f"# A clamd for modelctl, with windows of {window_bytes >> 20} MiB (malware.window_mib). Its temporary folder\n"
        "# needs room for two. Who runs modelctl is to be in the group of the socket: usermod -aG clamav USER\n"
        + text(service_options(window_bytes))
    )


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """A clamd.conf as it lies on the disk. `options` holds the last value of each option, without quotes."""

    path: Path
    options: Mapping[str, str]
    loaded: bool = True
    """False when the file was changed after clamd started, so that clamd runs with something else."""

    def lacks(self, window_bytes: int, *, trusted_scan_s: float) -> dict[str, str]:
        """The options to change so that windows of `window_bytes` are looked at whole, with their new values."""
        wanted = limits(window_bytes)
        names = [name for name, default in _DEFAULT_BYTES.items() if 0 < self._bytes(name, default) < window_bytes]
        if 0 < self._number("MaxScanTime", _DEFAULT_SCAN_TIME_MS) < trusted_scan_s * 1000:
            names.append("MaxScanTime")
        if not self._yes("AlertExceedsMax", default=False):
            names.append("AlertExceedsMax")
        changes = {name: wanted[name] for name in names}
        return changes | {f"Scan{kind}": "yes" for kind in _PARSERS if not self._yes(f"Scan{kind}", default=True)}

    def serves(self, address: str) -> bool:
        """Whether a clamd with this configuration listens at a socket's path or `host:port`."""
        if "/" in address:
            local = self.options.get("LocalSocket")
            return local is not None and os.path.realpath(local) == os.path.realpath(address)
        host, _, port = address.rpartition(":")
        return host.strip("[]") in _LOOPBACK and self.options.get("TCPSocket") == port

    @property
    def has_database(self) -> bool | None:
        """Whether its folder of signatures holds any file; None when that can't be told."""
        try:
            return any(path.is_file() for path in self.database.iterdir())
        except FileNotFoundError:
            return False
        except OSError:
            return None

    @property
    def database(self) -> Path:
        """Its folder of signatures."""
        return Path(self.options.get("DatabaseDirectory", "/var/lib/clamav"))

    def _bytes(self, name: str, default: int) -> int:
        value = self.options.get(name, "")
        factor = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}.get(value[-1:].lower(), 1)
        digits = value[:-1] if factor > 1 else value
        return int(digits) * factor if digits.isdecimal() else default

    def _number(self, name: str, default: int) -> int:
        value = self.options.get(name, "")
        return int(value) if value.isdecimal() else default

    def _yes(self, name: str, *, default: bool) -> bool:
        value = self.options.get(name)
        return default if value is None else value.lower() in ("yes", "true", "1")


def read(path: Path) -> Configuration | None:
    """A clamd.conf, or None when it can't be read."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    options: dict[str, str] = {}
    for line in lines:
        name, _, value = line.strip().partition(" ")
        if name and not name.startswith("#"):
            options[name] = value.strip().strip('"')
    return Configuration(path=path, options=options)


def configuration_of(address: str) -> Configuration | None:
    """The configuration of a clamd of this machine: that of a running one that names the address, else one at the
    usual places. None for a clamd elsewhere, and where no file can be read."""
    for path, started_at in _running():
        found = read(path)
        if found is not None and found.serves(address):
            return replace(found, loaded=path.stat().st_mtime <= started_at + CLOCK_STEP_S)
    candidates = (read(path) for path in DEFAULT_PATHS)
    return next((found for found in candidates if found is not None and found.serves(address)), None)


def why_silent(address: str) -> str | None:
    """Why nothing listens at the address of a clamd of this machine, as far as its configuration tells."""
    configuration = configuration_of(address)
    if configuration is None or configuration.has_database is not False:
        return None
    return f"{configuration.database} holds no signatures, and clamd does not start without any"


def _running() -> Iterator[tuple[Path, float]]:
    """The configuration file and the start (seconds since the epoch) of every clamd that can be seen."""
    import psutil

    for process in psutil.process_iter(["name", "cmdline", "create_time"]):
        if process.info["name"] != "clamd":
            continue
        arguments = process.info["cmdline"] or []
        for argument, following in zip(arguments, [*arguments[1:], ""], strict=False):
            if argument.startswith("--config-file="):
                yield Path(argument.partition("=")[2]), process.info["create_time"]
            elif argument in ("-c", "--config-file"):
                yield Path(following), process.info["create_time"]


def _size_text(size_bytes: int) -> str:
    return f"{size_bytes >> 20}M" if size_bytes % (1 << 20) == 0 else str(size_bytes)
