"""Terminals of every kind: without colours, dumb, narrow, in ASCII; and files as an editor on Windows writes them."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from modelctl.cli.terminal import HANDLER, is_dumb, is_plain, prepare_streams
from tests.support.command import MODELCTL, modelctl
from tests.support.models import tiny_llama

ASCII = [
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"PYTHONIOENCODING": "ascii"},
]


def on_a_terminal(*arguments: str | Path, cwd: Path, env: Mapping[str, str]) -> tuple[int, str]:
    """Run a command whose stdout and stderr are a terminal; its exit code and all that it wrote."""
    ours, theirs = pty.openpty()
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    environ = {**kept, "HOME": str(cwd), "TERM": "xterm-256color", "COLUMNS": "100", **env}
    process = subprocess.Popen(
        [MODELCTL, *arguments], cwd=cwd, env=environ, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True
    )
    os.close(theirs)
    written = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the terminal's other end is closed
            break
        if not piece:
            break
        written += piece
    os.close(ours)
    return process.wait(60), written.decode()


@pytest.mark.parametrize("env", ASCII)
def test_letters_that_the_locale_lacks_are_replaced(tmp_path: Path, env: dict[str, str]) -> None:
    done = modelctl("pull", "--help", cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert "sha256:..." in done.stdout
    done = modelctl("show", "no@such–naïve→name", cwd=tmp_path, env=env)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_letters_that_the_locale_has_are_kept(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run([MODELCTL, "show", "é@→"], cwd=tmp_path, env=env, capture_output=True, check=False)
    assert done.returncode == 2
    assert "'é@->' is not NAME@VERSION" in done.stderr.decode("latin-1")


@pytest.mark.parametrize("env", ASCII)
@pytest.mark.slow
def test_a_report_in_ascii_keeps_its_marks(tmp_path: Path, env: dict[str, str]) -> None:
    model = tiny_llama(tmp_path / "model")
    done = modelctl("admit", model, "--policy", "demo", "--check", "integrity", cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert "+ passed" in done.stdout
    assert done.stdout.isascii()


def test_what_has_no_ascii_form_is_a_question_mark() -> None:
    prepare_streams()
    assert "✓ naïve → 10 × “a”… 模".encode("ascii", HANDLER) == b'+ naive -> 10 x "a"... ?'
    assert "caf\udce9".encode("utf-8", HANDLER) == rb"caf\xe9"


def test_no_color_and_dumb_terminals_are_told_from_others() -> None:
    assert is_plain({"NO_COLOR": "1"})
    assert not is_plain({"NO_COLOR": "", "TERM": "xterm"})
    assert is_plain({"TERM": "dumb"})
    assert is_dumb({"TERM": "dumb"})
    assert not is_dumb({"NO_COLOR": "1", "TERM": "xterm"})


@pytest.mark.parametrize("command", [("config", "show"), ("show", "no@name")])
@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_that_wants_none_gets_no_escapes(
    tmp_path: Path, env: dict[str, str], command: tuple[str, ...]
) -> None:
    _, plain = on_a_terminal(*command, cwd=tmp_path, env=env)
    assert "\x1b" not in plain


def test_a_terminal_gets_colours_otherwise(tmp_path: Path) -> None:
    code, coloured = on_a_terminal("show", "no@name", cwd=tmp_path, env={})
    assert code == 2
    assert "\x1b[31m" in coloured


def test_a_dumb_terminal_gets_no_bars(tmp_path: Path) -> None:
    model = tiny_llama(tmp_path / "model")
    code, text = on_a_terminal(
        "admit", model, "--policy", "demo", "--check", "integrity", cwd=tmp_path, env={"TERM": "dumb"}
    )
    assert code == 0, text
    assert "\x1b" not in text
    assert "ADMITTED" in text


@pytest.mark.parametrize("columns", ["nonsense", "0", "-5", ""])
def test_a_width_that_is_none_is_passed_over(tmp_path: Path, columns: str) -> None:
    done = modelctl("config", "show", cwd=tmp_path, env={"COLUMNS": columns})
    assert done.returncode == 0, done.stderr
    assert "MODELCTL_POLICY" in done.stdout


RELEASE = """\
apiVersion: modelctl.dev/v1
kind: ModelRelease
metadata: {name: tiny, version: 1.0.0}
spec:
  source: {folder: model}
  policy: ours
  serving:
    max_model_len: 64
"""
POLICY = """\
apiVersion: modelctl.dev/v1
kind: AdmissionPolicy
metadata: {name: ours}
spec:
  extends: demo
"""


def test_files_with_windows_line_endings_and_a_mark_are_read(tmp_path: Path) -> None:
    """Settings, a policy and a release file, also from a commit."""
    tiny_llama(tmp_path / "model")
    for name, text in {
        "modelctl.yaml": "environments: [lab]\n# ü\n",
        "policies/ours.yaml": POLICY,
        "registry/tiny/1.0.0/release.yaml": RELEASE,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    for command in (
        ["init", "--quiet"], ["add", "-A"],
        ["-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "--quiet", "-m", "all"],
    ):  # fmt: skip
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    assert "environments" in modelctl("config", "show", cwd=tmp_path).stdout
    done = modelctl("policy", "check", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for more in ((), ("--policy-ref", "HEAD", "--policy", "ours")):
        done = modelctl("admit", "tiny@1.0.0", "--check", "integrity", "--json", "-", *more, cwd=tmp_path)
        assert done.returncode == 0, done.stderr


def test_a_file_in_utf_16_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "modelctl.yaml").write_text("policy: demo\n", encoding="utf-16")
    done = modelctl("config", "show", cwd=tmp_path)
    assert done.returncode == 2
    assert "modelctl.yaml: not UTF-8" in done.stderr
    assert "save the file as UTF-8" in done.stderr
