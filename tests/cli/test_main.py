"""The command line: help without imports, near misses named, one message and the right exit code for every error."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from modelctl.cli import main
from modelctl.cli.main import COMMANDS, cli, run
from modelctl.errors import CannotDecideError, InputError, ModelctlError, RefusedError
from tests.support.command import modelctl


def test_every_command_has_help_that_begins_like_its_summary(tmp_path: Path) -> None:
    with click.Context(cli) as context:
        for name in COMMANDS:
            command = cli.get_command(context, name)
            assert command is not None
            assert command.help, name
            with click.Context(command, info_name=name) as inner:
                assert "Usage" in command.get_help(inner)


def test_help_lists_the_commands(tmp_path: Path) -> None:
    done = modelctl("--help", cwd=tmp_path)
    assert done.returncode == 0
    for name in COMMANDS:
        assert f"\n  {name} " in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["amdit", "x"], "Did you mean 'audit'?"),
        (["admit"], "Missing argument 'REPO'"),
        (["admit", "x", "--chek", "malware"], "--check"),
        (["admit", "x", "--check", "malwear"], "malwear"),
    ],
)
def test_a_misspelt_command_line_is_usage(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = modelctl(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("bad", remedy="mend"), 2),
        (CannotDecideError("bad", remedy="mend"), 3),
        (RefusedError("bad", remedy="mend"), 1),
        (ModelctlError("bad", remedy="mend\nthen this"), 3),
        (OSError(28, "No space left on device", "model.safetensors"), 3),
        (KeyboardInterrupt(), 130),
    ],
)
def test_an_error_is_one_message_and_an_exit_code(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    command = click.Command("doctor", callback=fail)
    monkeypatch.setattr(main.LazyGroup, "get_command", lambda *_: command)
    assert run(["doctor"]) == code
    said = capsys.readouterr().err
    assert said
    assert "Traceback" not in said
    if isinstance(error, ModelctlError):
        assert "next: mend" in said


def test_config_show_says_where_each_value_comes_from(tmp_path: Path) -> None:
    (tmp_path / "modelctl.yaml").write_text("store: {bucket: b}\n")
    done = modelctl(
        "config", "show", "--json", cwd=tmp_path, env={"MODELCTL_CLAMD": "here", "MODELCTL_STORE_SECRET_KEY": "hush"}
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["settings"]
    assert rows["store.bucket"] == {"value": "b", "origin": "modelctl.yaml", "variable": "MODELCTL_STORE_BUCKET"}
    assert rows["clamd"]["origin"] == "MODELCTL_CLAMD"
    assert rows["store.secret_key"]["value"] == "********"
    assert (
        "hush"
        not in done.stdout + modelctl("config", "show", cwd=tmp_path, env={"MODELCTL_STORE_SECRET_KEY": "hush"}).stdout
    )


def test_doctor_names_what_is_missing_with_the_command_that_mends_it(tmp_path: Path) -> None:
    done = modelctl("doctor", "--json", cwd=tmp_path)
    rows = {row["part"]: row for row in json.loads(done.stdout)}
    assert done.returncode == 3
    assert rows["python"]["state"] == "ok"
    assert rows["isolation"]["state"] == "ok"
    assert rows["signing key"]["state"] == "missing"
    assert "ssh-keygen" in rows["signing key"]["remedy"]
    assert all(row["remedy"] for row in rows.values() if row["state"] != "ok")
    assert list(tmp_path.iterdir()) == [], "looking leaves nothing behind"
