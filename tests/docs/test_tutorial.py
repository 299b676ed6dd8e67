"""The tutorial from its first line to its last, typed into one shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from modelctl.git import Git
from modelctl.services.process import Running
from tests.docs.blocks import PROJECT, blocks
from tests.docs.scene import Scene, scene
from tests.support.models import tiny_llama
from tests.support.s3_servers import ACCESS_KEY, SECRET_KEY

PAGE = PROJECT / "docs" / "tutorial.md"
MODEL = "SmolLM2-135M-Instruct"
CARD = "---\nlicense: apache-2.0\n---\n# A small model\n"
IDENTITY = {"GIT_AUTHOR_NAME": "Me", "GIT_AUTHOR_EMAIL": "me@example.org"}

pytestmark = [pytest.mark.services, pytest.mark.slow]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, rclone: Running) -> Iterator[Scene]:
    """Only the services of a scene: the tutorial makes its own repository."""
    store = {
        "MODELCTL_STORE_ENDPOINT": rclone.address,
        "MODELCTL_STORE_BUCKET": "tutorial",
        "MODELCTL_STORE_ACCESS_KEY": ACCESS_KEY,
        "MODELCTL_STORE_SECRET_KEY": SECRET_KEY,
    }
    with scene(tmp_path_factory.mktemp("tutorial"), store) as made:
        yield made


def test_the_tutorial_is_true(tmp_path: Path, place: Scene) -> None:
    model = tiny_llama(tmp_path / MODEL, max_positions=1024)
    (model / "README.md").write_text(CARD, encoding="utf-8")
    lines = [line for block in blocks(PAGE) for line in ("", *block.script)]
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        **IDENTITY,
        **{name.replace("AUTHOR", "COMMITTER"): value for name, value in IDENTITY.items()},
        **place.environment,
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-x", "-c", "\n".join(lines)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    kept = Git(tmp_path / "models").run("ls-files", "--others", "--exclude-standard", "--cached").splitlines()
    assert "registry/smollm2/1.1.0/record.yaml" in kept
    assert not [path for path in kept if path.endswith((".safetensors", ".html", "key"))], "nothing of that is for git"
    assert "refused: exit code 1" in done.stdout
    assert "malware.pickle-import" in done.stdout
    assert "smollm2@1.0.0: whole and verified" in done.stdout
    assert "lab: smollm2@1.0.0 is stable instead of smollm2@1.1.0" in done.stdout
    for kind in ("published", "rolled-out", "promoted", "aborted"):
        assert re.search(rf"{kind}\b", done.stdout), kind


def test_its_own_check_finds_what_a_card_lacks(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(r"card\.py <<'END'\n(.*?)^END$", text, re.DOTALL | re.MULTILINE)
    assert found is not None
    names: dict[str, object] = {}
    exec(found[1], names)
    (tmp_path / "README.md").write_text(CARD, encoding="utf-8")
    check = names["check"]
    assert callable(check)
    seen = check(SimpleNamespace(model=tmp_path, options={"words": ["license", "limitations"]}))
    assert [finding.message for finding in seen.findings] == ["the card says nothing of limitations"]
