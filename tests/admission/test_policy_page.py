"""What docs/policy.md shows is what modelctl takes."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from modelctl.admission.policy import load_policy
from modelctl.admission.policy_files import FolderFiles
from modelctl.admission.waivers import load_waivers
from modelctl.checks.base import Observation
from modelctl.documents import parse_yaml
from tests.tooling.scripts import ROOT

PAGE = (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
HEAD = "apiVersion: modelctl.dev/v1\nkind: AdmissionPolicy\nmetadata: {name: ours}\n"
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 4


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[-1].strip())
def test_an_example_is_read(tmp_path: Path, block: str) -> None:
    document: dict[str, Any] = parse_yaml(block, origin="the page")
    if document.get("kind") == "Waiver":
        folder = tmp_path / "policies" / "waivers"
        folder.mkdir(parents=True)
        (folder / f"{document['metadata']['name']}.yaml").write_text(block)
        assert len(load_waivers(FolderFiles(tmp_path))) == 1
        return
    text = block if "kind" in document else HEAD + block
    (tmp_path / "ours.yaml").write_text(text)
    assert load_policy(str(tmp_path / "ours.yaml"), tmp_path).name == "ours"


def test_the_check_of_the_page_works(tmp_path: Path) -> None:
    (source,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(source, "docs/policy.md", "exec"), names)
    (tmp_path / "README.md").write_text("## Intended use\n")
    request = SimpleNamespace(model=tmp_path, options={"words": ["Intended use", "Limitations"]})
    seen: Observation = names["check"](request)
    assert [finding.message for finding in seen.findings] == ["the card says nothing of Limitations"]
    assert seen.findings[0].rule == "model-card.word"
