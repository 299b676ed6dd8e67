"""What a shell completes, asked for as bash asks for it: from the registry repository's folders, and quickly."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from modelctl.cli.completion import SHELLS, split
from modelctl.cli.suggestions import releases
from tests.support.command import MODELCTL, modelctl


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    for release in ("tiny/1.0.0", "tiny/1.10.0", "tiny/1.10.0-rc.1", "tiny/1.9.0", "other/0.1.0"):
        (tmp_path / "registry" / release).mkdir(parents=True)
        (tmp_path / "registry" / release / "release.yaml").touch()
    for environment in ("prod", "staging"):
        (tmp_path / "gitops" / "environments" / environment).mkdir(parents=True)
        (tmp_path / "gitops" / "environments" / environment / "environment.yaml").touch()
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "ours.yaml").touch()
    (tmp_path / "modelctl.yaml").touch()
    return tmp_path


def asked(line: str, cwd: Path) -> list[str]:
    """What stands after the cursor at the end of `line`, as the program answers it."""
    env = {"_MODELCTL_COMPLETE": "bash_complete", "COMP_LINE": line, "COMP_BREAKS": " \t\n\"'@><=;|&(:"}
    done = modelctl(cwd=cwd, env=env)
    assert done.returncode == 0, done.stderr
    return [item.partition(",")[2] for item in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("modelctl pub", ["publish"]),
        ("modelctl policy ex", ["explain"]),
        ("modelctl admit --polic", ["--policy", "--policy-ref"]),
        ("modelctl admit x --policy o", ["ours"]),
        ("modelctl admit x --policy ", ["demo", "ours", "production"]),
        ("modelctl policy show pro", ["production"]),
        ("modelctl admit x --check long", ["long-context"]),
        ("modelctl rollout tiny@1.0.0 --env ", ["prod", "staging"]),
        ("modelctl promote t", ["tiny"]),
        ("modelctl publish tiny@1.10", ["1.10.0", "1.10.0-rc.1"]),
        ("modelctl publish o", ["other@0.1.0"]),
        ("modelctl pull other@", ["0.1.0", "latest", "stable:prod", "canary:prod", "stable:staging", "canary:staging"]),
        ("modelctl pull tiny@stable:", ["prod", "staging"]),
        ("modelctl show ot", ["other", "other@0.1.0", "other@latest", *(
            f"other@{role}:{where}" for where in ("prod", "staging") for role in ("stable", "canary"))]),
    ],
)  # fmt: skip
def test_words_of_this_registry_are_offered(registry: Path, line: str, words: list[str]) -> None:
    assert asked(line, registry) == words


def test_below_the_root_the_same_is_offered(registry: Path) -> None:
    assert asked("modelctl promote ot", registry / "registry" / "tiny") == ["other"]


def test_a_path_is_left_to_the_shell(registry: Path) -> None:
    env = {"_MODELCTL_COMPLETE": "bash_complete", "COMP_LINE": "modelctl admit ./mod"}
    assert modelctl(cwd=registry, env=env).stdout == "file,./mod\n"


def test_newer_versions_come_first(registry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(registry)
    assert releases() == ["other@0.1.0", "tiny@1.10.0", "tiny@1.10.0-rc.1", "tiny@1.9.0", "tiny@1.0.0"]


@pytest.mark.parametrize(
    ("line", "args", "last"),
    [
        ("modelctl ", [], ""),
        ("modelctl admit 'a b' x", ["admit", "a b"], "x"),
        ("modelctl audit --since 'two day", ["audit", "--since"], "two day"),
        ("modelctl admit a#b", ["admit"], "a#b"),
    ],
)
def test_a_line_is_split_as_a_shell_does(line: str, args: list[str], last: str) -> None:
    assert split(line) == (args, last)


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_gets_a_script(tmp_path: Path, shell: str) -> None:
    done = modelctl("completion", shell, cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == ""
    assert f"_MODELCTL_COMPLETE={shell}_complete" in done.stdout


def in_bash(line: str, cwd: Path) -> list[str]:
    """What bash has to offer at the end of `line`, its own splitting of words included."""
    program = f"""
    PATH={shlex.quote(str(MODELCTL.parent))}:$PATH
    source <(modelctl completion bash)
    COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)}
    compopt() {{ :; }}
    _modelctl_completion modelctl
    printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", program], cwd=cwd, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_bash_takes_its_script_and_completes(registry: Path) -> None:
    assert in_bash("modelctl pull tiny@1.9", registry) == ["1.9.0"]


def in_fish(line: str, cwd: Path) -> list[str]:
    """What fish has to offer at the end of `line`."""
    program = f"modelctl completion fish | source; complete -C {shlex.quote(line)}"
    done = subprocess.run(
        ["fish", "--no-config", "-c", program], cwd=cwd, env=shell_environment(cwd), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return [item.partition("\t")[0] for item in done.stdout.splitlines()]


def in_zsh(line: str, cwd: Path) -> str:
    """What zsh makes of `line` when a person presses Tab at its end, at a terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execvpe("zsh", ["zsh", "-f", "-i"], shell_environment(cwd) | {"TERM": "dumb", "PS1": "READY "})
    seen = ""

    def until(mark: str, count: int) -> None:
        nonlocal seen
        while seen.count(mark) < count:
            assert select.select([terminal], [], [], 60)[0], seen
            seen += os.read(terminal, 4096).decode(errors="replace")

    try:
        until("READY ", 1)
        setup = (
            "unsetopt zle_bracketed_paste; autoload -U compinit && compinit -D -u && source <(modelctl completion zsh)"
        )
        os.write(terminal, f"{setup}\n".encode())
        until("READY ", 2)
        seen = ""
        os.write(terminal, f"{line}\t#DONE".encode())
        until("#DONE", 1)
        return " ".join(re.sub(r"\x1b\[[?\d]*[a-z]|\x08", "", seen.partition("#DONE")[0]).split())
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def shell_environment(home: Path) -> dict[str, str]:
    return {"PATH": f"{MODELCTL.parent}:{os.environ['PATH']}", "HOME": str(home), "LANG": "C.UTF-8"}


@pytest.mark.services
def test_fish_takes_its_script_and_completes(registry: Path) -> None:
    assert in_fish("modelctl pub", registry) == ["publish"]
    assert in_fish("modelctl publish tiny@1.9", registry) == ["tiny@1.9.0"]
    assert in_fish("modelctl admit x --check long", registry) == ["long-context"]


@pytest.mark.services
def test_zsh_takes_its_script_and_completes(registry: Path) -> None:
    assert in_zsh("modelctl pub", registry) == "modelctl publish"
    assert in_zsh("modelctl publish tiny@1.9", registry) == "modelctl publish tiny@1.9.0"


PROGRAM = """
import os, sys
os.environ.update(_MODELCTL_COMPLETE="bash_complete", COMP_LINE="modelctl admit x --check ")
from modelctl.cli.main import run
run([])
print(*sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""


def test_completing_imports_nothing_heavy(registry: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", PROGRAM], cwd=registry, capture_output=True, text=True, check=False
    )
    assert "integrity" in done.stdout
    assert not {"pydantic", "rich", "numpy", "ruamel"} & set(done.stderr.split())
