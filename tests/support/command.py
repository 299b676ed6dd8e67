"""Runs `modelctl` as a person's shell would, in a folder of the test's.

The start of Python and the imports are most of a short command's second, so one process a test worker does both once
(`warm_command`) and forks for each command. A command whose environment Python reads at its start gets a Python of its
own, and so does every one with `fresh`.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

MODELCTL = Path(sys.executable).with_name("modelctl")
WARM = Path(__file__).with_name("warm_command.py")
READ_AT_START = ("PYTHON", "LC_")


def modelctl(
    *arguments: str | Path,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 400,
    fresh: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end. The environment holds no credentials and no settings but those in `env`."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    environ = {**kept, "HOME": str(cwd), "GIT_CONFIG_NOSYSTEM": "1", **(env or {})}
    argv = [str(MODELCTL), *map(str, arguments)]
    if fresh or any(name.startswith(READ_AT_START) for name in environ):
        return subprocess.run(
            argv, cwd=cwd, env=environ, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out, tempfile.TemporaryFile("w+", encoding="utf-8") as err:
        request = {
            "argv": argv, "cwd": str(cwd), "env": environ,
            "streams": [f"/proc/{os.getpid()}/fd/{stream.fileno()}" for stream in (out, err)],
        }  # fmt: skip
        code = _ask(_server(), request, timeout_s)
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(argv, code, out.read(), err.read())


@cache
def _server() -> subprocess.Popen[str]:
    """The process that forks; it ends when this one does, and its standard input with it."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return subprocess.Popen(
        [sys.executable, "-I", str(WARM)], env=kept, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _ask(server: subprocess.Popen[str], request: Mapping[str, object], timeout_s: float) -> int:
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    child = int(server.stdout.readline())
    if not select.select([server.stdout], [], [], timeout_s)[0]:
        os.kill(child, signal.SIGKILL)
        server.stdout.readline()
        raise subprocess.TimeoutExpired(str(request["argv"]), timeout_s)
    return int(server.stdout.readline())
