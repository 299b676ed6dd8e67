"""A child sees only what it is given, and is ended when its time or memory runs out."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import venv
from pathlib import Path

import pytest

from modelctl.errors import CannotDecideError
from modelctl.isolation import Child, Sandbox, detect
from modelctl.watching import end, resident_bytes

LIMITS = {"time_limit_s": 60.0, "memory_limit_bytes": 2 << 30}


def python(code: str, **more: object) -> Child:
    return Child(argv=[sys.executable, "-I", "-c", code], **more)  # type: ignore[arg-type]


def output_of(child: Child, sandbox: Sandbox | None = None) -> str:
    lines: list[bytes] = []
    finished = (sandbox or Sandbox()).run(child, request=b"", on_line=lines.append, **LIMITS)
    assert finished.returncode == 0, finished.stderr
    return b"".join(lines).decode()


def test_this_machine_isolates() -> None:
    """The rest of this module proves nothing without it: install bubblewrap."""
    assert detect() == "bubblewrap"


def test_no_secrets_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    for sandbox in (Sandbox("bubblewrap"), Sandbox("none")):
        seen = json.loads(output_of(python("import os, json; print(json.dumps(dict(os.environ)))"), sandbox))
        assert "HF_TOKEN" not in seen
        assert seen["HF_HUB_OFFLINE"] == "1"


def test_only_the_named_folders_are_there(tmp_path: Path) -> None:
    for name in ("given", "hidden", "out"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    code = f"""
from pathlib import Path
base = Path({str(tmp_path)!r})
print((base / "given/file").read_text(), (base / "hidden").exists(), Path("/etc/shadow").exists())
(base / "out/made").write_text("x")
try:
    (base / "given/file").write_text("changed")
except OSError as error:
    print("read-only")
"""
    said = output_of(python(code, readable=[tmp_path / "given"], writable=[tmp_path / "out"]))
    assert said == "given False False\nread-only\n"
    assert (tmp_path / "out" / "made").read_text() == "x"


def test_no_network() -> None:
    code = "import socket\nprint([name for _, name in socket.if_nameindex()])"
    assert output_of(python(code)) == "['lo']\n"


@pytest.mark.slow
def test_time_runs_out_and_grandchildren_go_too() -> None:
    code = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
time.sleep(600)
"""
    for sandbox in (Sandbox("bubblewrap"), Sandbox("none")):
        began = time.monotonic()
        with pytest.raises(CannotDecideError, match="time limit of 1 s"):
            sandbox.run(python(code), request=b"", on_line=lambda _: None, time_limit_s=1, memory_limit_bytes=1 << 30)
        assert time.monotonic() - began < 15


def test_memory_runs_out() -> None:
    code = "import time; kept = bytearray(400 << 20); time.sleep(30)"
    with pytest.raises(CannotDecideError, match="memory limit of 200 MiB"):
        Sandbox().run(python(code), request=b"", on_line=lambda _: None, time_limit_s=30, memory_limit_bytes=200 << 20)


def test_a_line_without_an_end_ends_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelctl.isolation.MAX_LINE_BYTES", 1000)
    with pytest.raises(CannotDecideError, match="writes a line of over"):
        output_of(python("while True: print('x', end='')"))


def test_end_is_fine_with_what_has_ended() -> None:
    process = Sandbox().start(python("pass"))
    process.wait(timeout=30)
    end(process)
    assert process.returncode == 0
    assert resident_bytes(process.pid) == 0


def test_end_kills_what_does_not_listen() -> None:
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(600)"
    )
    process = Sandbox("none").start(python(code), stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        process.stdout.readline()
        end(process, grace_s=0.2)
    assert process.poll() is not None


def test_a_missing_program_is_named() -> None:
    with pytest.raises(CannotDecideError, match="no-such-program"):
        Sandbox("none").start(Child(argv=["no-such-program"]))


def test_an_environment_below_tmp_is_not_hidden(tmp_path: Path) -> None:
    assert tmp_path.is_relative_to("/tmp")
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    python_there = str(tmp_path / "env" / "bin" / "python")
    code = "import sys; print(sys.prefix)"
    said = output_of(Child(argv=[python_there, "-I", "-c", code]), Sandbox("bubblewrap"))
    assert said.strip() == str(tmp_path / "env")
