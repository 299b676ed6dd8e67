from __future__ import annotations

import json
from pathlib import Path

import pytest

from modelctl.errors import CannotDecideError
from modelctl.serving.named_files import named_files
from modelctl.settings import Engine


@pytest.fixture
def template(tmp_path: Path) -> Path:
    path = tmp_path / "chat.jinja"
    path.write_text("{{ messages }}")
    return path


def test_files_are_found_in_every_way_that_an_argument_names_them(tmp_path: Path, template: Path) -> None:
    adapter, code, script = tmp_path / "adapter", tmp_path / "code", tmp_path / "serve.py"
    adapter.mkdir()
    code.mkdir()
    script.write_text("")
    settings = Engine(
        command=f"python {script} --model {{model}}",
        args=(
            "--chat-template", str(template), f"--config={template}", "--lora-modules", f"mine={adapter}",
            json.dumps({"name": "other", "path": str(adapter)}), "--dtype", "auto", "--max-num-seqs=4",
        ),
        env={"PYTHONPATH": f"/nowhere:{code}", "VLLM_CPU_KVCACHE_SPACE": "1"},
    )  # fmt: skip
    assert set(named_files(settings)) == {script, template, adapter, code}


def test_the_machine_itself_is_never_made_readable() -> None:
    assert (
        named_files(Engine(args=("--x", "/", "--y=/tmp", "/usr/bin/env", "/dev/null"), env={"A": "/root:/etc/passwd"}))
        == ()
    )


def test_values_that_only_look_like_paths_are_left_alone() -> None:
    settings = Engine(args=("--uds", "/run/x.sock", "--root-path", "/v1.0", "--root-path=/v1.1", "--served", "/v1"))
    assert named_files(settings) == ()


def test_a_file_that_is_missing_is_named_before_an_engine_starts(tmp_path: Path) -> None:
    with pytest.raises(CannotDecideError, match=r"engine.args names .*/none.jinja, which is not there"):
        named_files(Engine(args=("--chat-template", str(tmp_path / "none.jinja"))))


def test_a_file_named_from_here_is_told_with_its_absolute_path(monkeypatch: pytest.MonkeyPatch, template: Path) -> None:
    monkeypatch.chdir(template.parent)
    for word in ("chat.jinja", "./chat.jinja", f"../{template.parent.name}/chat.jinja"):
        with pytest.raises(CannotDecideError, match="empty folder of its own") as caught:
            named_files(Engine(args=("--chat-template", word)))
        assert str(template) in (caught.value.remedy or "")
