"""Children that touch a hostile model: no network, no secrets, only the named folders, a time and a memory limit.

Bubblewrap is used where it works: an empty file system with the system's libraries, the interpreter and the named
folders in it, a network namespace of its own, an empty environment. Where it does not work the child still gets an
empty environment and its limits, and `Sandbox.kind` says "none" so that a report and a policy can tell. A child is
ended with everything it started.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

from modelctl.errors import CannotDecideError
from modelctl.watching import Tail, Watch, end

IsolationKind = Literal["bubblewrap", "none"]

SYSTEM_PATHS = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/sys",
    "/etc/alternatives", "/etc/group", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
    "/etc/localtime", "/etc/nsswitch.conf", "/etc/passwd",
)  # fmt: skip
"""What a child may read of the machine: programs and libraries, no configuration and nobody's home."""

MAX_LINE_BYTES = 256 << 20
"""Longest line of a child's output: it is held in memory."""


@dataclass(frozen=True, kw_only=True)
class Child:
    """What a child may see and use. Paths keep their names inside; a child has no other folders."""

    argv: Sequence[str]
    readable: Sequence[Path] = ()
    writable: Sequence[Path] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    devices: bool = False
    """Give the machine's /dev (GPUs) instead of a minimal one."""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """How a child ended: `returncode` is negative for a signal, `stderr` is its last 64 KiB."""

    returncode: int
    stderr: str
    peak_rss_bytes: int


class Sandbox:
    """Starts children in the strongest isolation this machine allows."""

    def __init__(self, kind: IsolationKind | None = None) -> None:
        self.kind: IsolationKind = kind or detect()

    def command(self, child: Child) -> list[str]:
        """The argument vector that runs `child` isolated."""
        if self.kind == "none":
            return list(child.argv)
        home = "/tmp/home"  # noqa: S108 - inside the child's own tmpfs
        argv = ["bwrap", "--die-with-parent", "--new-session", "--unshare-all", "--cap-drop", "ALL", "--clearenv"]
        for system in SYSTEM_PATHS:
            argv += ["--ro-bind-try", system, system]
        argv += ["--dev-bind", "/dev", "/dev"] if child.devices else ["--dev", "/dev"]
        argv += ["--proc", "/proc", "--tmpfs", "/tmp", "--dir", home, "--tmpfs", "/dev/shm"]  # noqa: S108
        # After the empty /tmp, which would hide an environment that lies below it.
        for path in interpreter_paths(child.argv[0]):
            argv += ["--ro-bind-try", str(path), str(path)]
        for path in child.readable:
            argv += ["--ro-bind", str(path), str(path)]
        for path in child.writable:
            argv += ["--bind", str(path), str(path)]
        for name, value in _environment(child.env, home).items():
            argv += ["--setenv", name, value]
        return [*argv, "--chdir", home, "--", *child.argv]

    def start(
        self,
        child: Child,
        *,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        stdout: int | IO[bytes] = subprocess.DEVNULL,
        stderr: int | IO[bytes] = subprocess.DEVNULL,
    ) -> subprocess.Popen[bytes]:
        """Start a child in a process group of its own; end it with `end`."""
        home = tempfile.gettempdir()
        try:
            return subprocess.Popen(
                self.command(child),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env=_environment(child.env, home)
                if self.kind == "none"
                else {"PATH": os.environ.get("PATH", os.defpath)},
                cwd=home,
                start_new_session=True,
            )
        except OSError as error:
            raise CannotDecideError(f"cannot start {child.argv[0]}: {error.strerror}") from error

    def run(
        self,
        child: Child,
        *,
        request: bytes,
        on_line: Callable[[bytes], None],
        time_limit_s: float,
        memory_limit_bytes: int,
    ) -> Finished:
        """Run a child to its end: feed it `request`, hand each line of its output to `on_line`.

        Raises `CannotDecideError` when the time (seconds) or the memory (resident bytes of the child and all it
        started) runs out, or a line has no end.
        """
        process = self.start(child, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise AssertionError("pipes were asked for")
        tail = Tail(process.stderr)
        watch = Watch(process, time_limit_s=time_limit_s, memory_limit_bytes=memory_limit_bytes)
        try:
            with contextlib.suppress(BrokenPipeError):  # the exit status and the error output say why
                process.stdin.write(request)
                process.stdin.close()
            while line := process.stdout.readline(MAX_LINE_BYTES):
                if len(line) == MAX_LINE_BYTES:
                    raise CannotDecideError(f"{child.argv[-1][:80]!a} writes a line of over {MAX_LINE_BYTES >> 20} MiB")
                on_line(line)
            returncode = process.wait()
        finally:
            end(process)
            watch.stop()
        if watch.exceeded:
            raise CannotDecideError(watch.exceeded)
        return Finished(returncode=returncode, stderr=tail.text(), peak_rss_bytes=watch.peak_rss_bytes)


@functools.cache
def detect() -> IsolationKind:
    """ "bubblewrap" when it is installed and may create namespaces here, else "none"."""
    if shutil.which("bwrap") is None:
        return "none"
    probe = Sandbox("bubblewrap").command(Child(argv=["true"]))
    try:
        done = subprocess.run(probe, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "none"
    return "bubblewrap" if done.returncode == 0 else "none"


def interpreter_paths(program: str) -> list[Path]:
    """The folders that a program needs to start: its environment and, for a virtual environment, the one beneath it."""
    found = shutil.which(program)
    if found is None:
        return []
    paths: list[Path] = []
    executable = Path(found).absolute()
    for candidate in (executable, executable.resolve()):
        prefix = candidate.parent.parent
        if prefix not in (Path("/"), Path("/usr")):
            paths.append(prefix)
        base = _base_of_virtual_environment(prefix)
        if base is not None:
            paths.append(base)
    if executable == Path(sys.executable).absolute():
        paths.append(Path(__file__).parent.parent)  # an editable install lives outside the environment
        paths.append(Path(sys.base_prefix))
    return list(dict.fromkeys(paths))


def _base_of_virtual_environment(prefix: Path) -> Path | None:
    try:
        lines = (prefix / "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        key, _, value = line.partition("=")
        if key.strip() == "home":
            return Path(value.strip()).resolve().parent
    return None


def _environment(extra: Mapping[str, str], home: str) -> dict[str, str]:
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": home,
        "LANG": "C.UTF-8",
        "TMPDIR": "/tmp",  # noqa: S108 - inside the child's own tmpfs
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "DO_NOT_TRACK": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONDONTWRITEBYTECODE": "1",
        **extra,
    }
