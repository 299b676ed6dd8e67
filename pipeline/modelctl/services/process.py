"""A service as a background process: started until it answers, found again by its state file, ended with all it
started.

The state file names the process and its start time, so that a recycled process id is never taken for the service.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from modelctl.errors import CannotDecideError


@dataclass(frozen=True, kw_only=True)
class Service:
    """How to start one service and how to tell that it is ready."""

    name: str
    argv: tuple[str, ...]
    folder: Path
    """Its state: `service.json`, `service.log` and whatever it keeps."""
    address: str
    """What its clients are told: a socket's path, `host:port` or a URL."""
    detail: str
    """One sentence for a person: which database, which folder."""
    ready: Callable[[], bool]
    ready_timeout_s: float = 60.0
    env: Mapping[str, str] = field(default_factory=dict)
    scratch: str = ""
    """Below its folder, as a glob: what it leaves there when it had to be killed, and is removed once it has ended."""


@dataclass(frozen=True, kw_only=True)
class Running:
    """A service that was started, as its state file says."""

    name: str
    pid: int
    started_at: float
    address: str
    detail: str
    scratch: str = ""


def start(service: Service) -> Running:
    """Start a service, or find it running. Returns once it is ready; raises `CannotDecideError` with the end of its
    log."""
    already = find(service.folder)
    if already is not None:
        return already
    service.folder.mkdir(parents=True, exist_ok=True)
    log = service.folder / "service.log"
    try:
        with log.open("wb") as output:
            process = subprocess.Popen(
                service.argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **service.env},
                cwd=service.folder,
                start_new_session=True,
            )
    except OSError as error:
        raise CannotDecideError(f"cannot start {service.name} ({service.argv[0]}): {error.strerror}") from error
    running = Running(
        name=service.name,
        pid=process.pid,
        started_at=_start_time(process.pid) or 0.0,
        address=service.address,
        detail=service.detail,
        scratch=service.scratch,
    )
    deadline = time.monotonic() + service.ready_timeout_s
    try:
        (service.folder / "service.json").write_text(json.dumps(asdict(running)) + "\n", encoding="utf-8")
        while not service.ready():
            if process.poll() is not None or time.monotonic() > deadline:
                state = "ended" if process.poll() is not None else f"not ready after {service.ready_timeout_s:g} s"
                words = log.read_text(encoding="utf-8", errors="replace").strip()[-800:]
                raise CannotDecideError(f"{service.name} {state}: {words or 'no words'}", remedy=f"see {log}")
            time.sleep(0.05)
    except BaseException:
        stop(service.folder)
        raise
    return running


def find(folder: Path) -> Running | None:
    """The service whose state is in `folder`, if it still runs."""
    try:
        running = Running(**json.loads((folder / "service.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return running if _start_time(running.pid) == running.started_at else None


def stop(folder: Path, *, grace_s: float = 10.0) -> bool:
    """End the service of `folder` with everything it started; False when none ran."""
    running = find(folder)
    with contextlib.suppress(FileNotFoundError):
        (folder / "service.json").unlink()
    if running is None:
        return False
    if _end(running, signal.SIGTERM, grace_s) or _end(running, signal.SIGKILL, 5.0):
        _remove_scratch(folder, running.scratch)
    return True


def _end(running: Running, sign: signal.Signals, patience_s: float) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(running.pid, sign)
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(running.pid, os.WNOHANG)
        if _start_time(running.pid) != running.started_at:
            return True
        time.sleep(0.05)
    return False


def _remove_scratch(folder: Path, pattern: str) -> None:
    for path in folder.glob(pattern) if pattern else ():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@contextmanager
def running(service: Service) -> Iterator[Running]:
    """A service for the time of a `with` block; one that ran before is left running."""
    already = find(service.folder)
    try:
        yield already or start(service)
    finally:
        if already is None:
            stop(service.folder)


def free_port() -> int:
    """A TCP port on loopback that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start_time(pid: int) -> float | None:
    import psutil

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return float(process.create_time())
    except psutil.NoSuchProcess:
        return None
