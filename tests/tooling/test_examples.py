"""The examples in the documents are files that the program reads."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import kubernetes_validate

from modelctl.documents import parse_yaml
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


def test_the_job_of_the_ci_page_is_one_that_kubernetes_takes() -> None:
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    (job,) = (
        block for block in re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL) if "kind: Job" in block
    )
    kubernetes_validate.validate(parse_yaml(job.replace("$NAME", "admit-0"), origin="docs/ci.md"), "1.32", strict=True)
    (script,) = re.findall(r"^```bash\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    given = set(re.findall(r"\$(\w+)", re.search(r"envsubst '(.*?)'", script)[1]))  # type: ignore[index]
    assert given == set(re.findall(r"value: \$(\w+)", job)) | {"NAME"}
