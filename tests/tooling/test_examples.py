"""The examples in the documents are files that the program reads."""

from __future__ import annotations

import re
from pathlib import Path

from modelctl.model.release import load_release
from modelctl.settings import load_workspace
from tests.tooling.scripts import ROOT


def yaml_block(document: Path) -> str:
    """The first YAML block of a document."""
    found = re.search(r"^```yaml\n(.*?)^```", document.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found, document
    return found[1]


def test_the_release_file_of_the_registrys_readme(tmp_path: Path) -> None:
    path = tmp_path / "registry" / "example-4b-instruct" / "1.0.0" / "release.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(yaml_block(ROOT / "registry" / "README.md"), encoding="utf-8")
    release = load_release(path)
    assert release.spec.quantization is not None
    assert release.spec.serving.max_model_len == 8192


def test_the_settings_file_of_the_documents(tmp_path: Path) -> None:
    (tmp_path / "modelctl.yaml").write_text(yaml_block(ROOT / "docs" / "settings.md"), encoding="utf-8")
    settings = load_workspace(tmp_path, environ={}).settings
    assert settings.environments == ("staging", "prod")
    assert settings.engine.command == "vllm serve"
