"""Watching a child process: its error output, its time and its memory, and the end of all that it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from typing import IO

_STDERR_KEPT = 64 << 10
_POLL_S = 0.1
_SLOWEST_POLL_S = 1.0
_WATCHING_SHARE = 0.01
"""Of one core: looking through a machine with hundreds of processes takes milliseconds each time."""


def end(process: subprocess.Popen[bytes], *, grace_s: float = 5.0) -> None:
    """End a child started by `Sandbox.start` and everything in its process group: politely, then by force."""
    for sign, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 10.0)):
        if process.poll() is not None and not _group_alive(process.pid):
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            if process.poll() is not None and not _group_alive(process.pid):
                return
            time.sleep(0.02)


def resident_bytes(pid: int) -> int:
    """Resident memory of a process and everything it started, in bytes; 0 when it is gone."""
    import psutil

    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    total = 0
    for member in family:
        try:
            total += member.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


class Tail:
    """Drains a child's error output in the background and keeps its end."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._drain, args=(stream,), daemon=True)
        self._thread.start()

    def _drain(self, stream: IO[bytes]) -> None:
        with stream:
            while chunk := stream.read(8192):
                self._kept += chunk
                del self._kept[:-_STDERR_KEPT]

    def text(self) -> str:
        """What was kept: the last 64 KiB."""
        self._thread.join(timeout=5)
        return self._kept.decode("utf-8", "replace")


class Watch:
    """Ends a child whose time or memory runs out, and remembers its peak."""

    def __init__(self, process: subprocess.Popen[bytes], *, time_limit_s: float, memory_limit_bytes: int) -> None:
        self.exceeded: str | None = None
        self.peak_rss_bytes = 0
        self._process = process
        self._deadline = time.monotonic() + time_limit_s
        self._time_limit_s = time_limit_s
        self._memory_limit_bytes = memory_limit_bytes
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Watch no longer."""
        self._done.set()
        self._thread.join(timeout=20)

    def _run(self) -> None:
        pause = _POLL_S
        while not self._done.wait(pause):
            began = time.thread_time()
            used = resident_bytes(self._process.pid)
            pause = min(_SLOWEST_POLL_S, max(_POLL_S, (time.thread_time() - began) / _WATCHING_SHARE))
            self.peak_rss_bytes = max(self.peak_rss_bytes, used)
            if used > self._memory_limit_bytes:
                self.exceeded = (
                    f"memory limit of {self._memory_limit_bytes >> 20} MiB reached ({used >> 20} MiB in use)"
                )
            elif time.monotonic() > self._deadline:
                self.exceeded = f"time limit of {self._time_limit_s:g} s reached"
            if self.exceeded:
                end(self._process, grace_s=1.0)
                return


def _group_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
