"""`modelctl config show`: each setting as a person would write it, and where it comes from."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.command import modelctl

SETTINGS = "environments: [lab, prod]\nengine: {command: vllm serve, args: [--eager], env: {A: b}}\n"


def test_values_are_shown_as_a_person_writes_them(tmp_path: Path) -> None:
    (tmp_path / "modelctl.yaml").write_text(SETTINGS, encoding="utf-8")
    env = {"MODELCTL_STORE_SECRET_KEY": "hidden", "COLUMNS": "200"}
    done = modelctl("config", "show", cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
    assert rows["environments"][:3] == ["lab,", "prod", "modelctl.yaml"]
    assert rows["engine.args"][:2] == ["--eager", "modelctl.yaml"]
    assert rows["engine.env"][:2] == ["A=b", "modelctl.yaml"]
    assert rows["clamd"] == ["default", "MODELCTL_CLAMD"]
    assert "hidden" not in done.stdout
    assert "()" not in done.stdout


def test_a_program_gets_the_values_themselves(tmp_path: Path) -> None:
    (tmp_path / "modelctl.yaml").write_text(SETTINGS, encoding="utf-8")
    settings = json.loads(modelctl("config", "show", "--json", cwd=tmp_path).stdout)["settings"]
    assert settings["environments"]["value"] == ["lab", "prod"]
    assert settings["store.endpoint"] == {"value": None, "origin": "default", "variable": "MODELCTL_STORE_ENDPOINT"}
