"""A team's own check: found by metadata, run only in the child, held to the same verdict."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from modelctl.admission.own_checks import installed, own_check
from modelctl.admission.policy import OwnCheck
from modelctl.errors import CannotDecideError
from tests.support.contexts import tree_context
from tests.support.models import tiny_llama

CODE = """
import socket
from modelctl.checks.base import Coverage, Finding, Observation


def check(request):
    words = request.options.get("words", [])
    name = request.options.get("do")
    if name == "network":
        socket.create_connection(("127.0.0.1", 9), timeout=1)
    if name == "write":
        (request.model / "x").write_text("x")
    if name == "nothing":
        return Observation(coverage=())
    if name == "dict":
        return {}
    rule = "stray.word" if name == "stray" else "words.missing"
    card = request.model / "config.json"
    return Observation(
        coverage=(Coverage(unit="words", seen=len(words), total=len(words)),),
        findings=tuple(Finding(rule=rule, message=word, remedy="add it", path="config.json")
                       for word in words if word not in card.read_text()),
    )
"""

pytestmark = pytest.mark.slow  # an environment and a Python of its own


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An interpreter of its own, in whose environment a package with the check is installed beside modelctl."""
    environment = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    (site,) = environment.glob("lib/python*/site-packages")
    ours = next(item for item in sys.path if item.endswith("site-packages"))
    (site / "beside.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    (site / "our_words.py").write_text(CODE)
    info = site / "our_words-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: our-words\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[modelctl.checks]\nwords = our_words:check\n")
    monkeypatch.setattr(sys, "executable", str(environment / "bin" / "python"))
    monkeypatch.syspath_prepend(str(site))
    return site


def run(tmp_path: Path, **options: object):  # type: ignore[no-untyped-def]
    model = tmp_path / "model"
    if not model.exists():
        tiny_llama(model)
    limits = OwnCheck.model_validate({"options": options, "time_limit_s": 60})
    return own_check("words").run(tree_context(model, limits, scratch=tmp_path / "scratch"))


def test_it_is_found_without_being_imported(plugin: Path) -> None:
    assert installed()["words"].value == "our_words:check"
    assert "our_words" not in sys.modules


def test_what_it_says_comes_back_and_it_never_runs_here(plugin: Path, tmp_path: Path) -> None:
    seen = run(tmp_path, words=["hidden_size", "absent"])
    assert [(item.rule, item.message) for item in seen.findings] == [("words.missing", "absent")]
    assert seen.coverage[0].total == 2
    assert seen.tools == {"our-words (our_words:check)": "1.2"}
    assert "our_words" not in sys.modules


@pytest.mark.parametrize(
    ("do", "words"),
    [
        ("network", "ConnectionRefused|unreachable|Network"),
        ("write", "Read-only file system"),
        ("dict", "returned a dict"),
        ("stray", "found 'stray.word'"),
    ],
)
def test_what_it_may_not_do_decides_nothing(plugin: Path, tmp_path: Path, do: str, words: str) -> None:
    with pytest.raises(CannotDecideError, match=words):
        run(tmp_path, do=do, words=["absent"])


def test_one_that_is_not_installed_decides_nothing(tmp_path: Path) -> None:
    with pytest.raises(CannotDecideError, match="no installed package offers it"):
        run(tmp_path)
