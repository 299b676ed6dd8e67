"""Every command of the documents is run as it stands, in a registry repository with a small model and real services.

Words that stand for something are replaced by `SUBSTITUTIONS`, and by nothing else. What can't run here, its document
says in a comment before it; those lines are counted and printed.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelctl.services.process import Running
from tests.docs.blocks import PROJECT, Block, blocks, documents
from tests.docs.scene import Scene, scene
from tests.support.command import modelctl
from tests.support.s3_servers import ACCESS_KEY, SECRET_KEY

BLOCKS = [block for path in documents() if path.name != "tutorial.md" for block in blocks(path)]
SUBSTITUTIONS = (
    ("--upstream ORG/NAME@COMMIT", "--upstream org/model@{commit} --check integrity"),  # the others see the same again
    ("ORG/NAME@COMMIT", "org/model@{commit}"),
    ("org/model ", "org/model@{commit} "),
    ("org/name@COMMIT", "org/model@{commit}"),
    ("s3://bucket/name", "s3://models/tiny/1.0.0"),
    ("sha256:…", "{digest}"),
    ("/models/name", "models/{page}/name"),
    ("http://127.0.0.1:8000", "http://127.0.0.1:{port}"),
    ("API_KEY=…", "API_KEY=secret"),
    ("https://models.example.org", "http://127.0.0.1:{port}"),
    ("NAME", "tiny"),
    ("qwen3-4b", "tiny"),
    ("--seconds 120", "--seconds 1"),  # stress: half an hour less
    ("modelctl stress", "modelctl stress --seconds 0.2 --ramp 0.1 --rounds 1 --to 2"),
    ("--to 64", "--to 2"),
    ("--length 8192", "--length 128"),
    ("./folder-4bit --dry-run", "./folder-4bit --group-size 32 --dry-run"),  # the small model has 64 columns
    ("admission.json", "registry/tiny/1.0.0/admission.json"),
)
"""What a document's word stands for here, in this order."""
CODES = (
    ("modelctl doctor", (0, 3)),  # what this machine lacks is its own affair
    ("modelctl diff", (1,)),  # the two releases differ
    ("modelctl gc", (0, 3)),
    ("modelctl status", (0,)),
)
"""Exit codes that are right for a command's beginning, where it isn't 0 alone."""

DECISIONS = ("modelctl promote", "modelctl abort", "modelctl rollback")
"""They exclude each other: each is made about the scene's canary."""

pytestmark = [pytest.mark.services, pytest.mark.slow]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, rclone: Running) -> Iterator[Scene]:
    """The scene after a team's first weeks: one release in production, judged by two runners, the next one a canary.

    No block needs what another one leaves.
    """
    store = {
        "MODELCTL_STORE_ENDPOINT": rclone.address,
        "MODELCTL_STORE_ACCESS_KEY": ACCESS_KEY,
        "MODELCTL_STORE_SECRET_KEY": SECRET_KEY,
    }
    with scene(tmp_path_factory.mktemp("documents"), store) as made:
        for line in (
            "admit tiny@1.0.0 --check integrity --check malware --check code --check tokenizer --evidence-dir cpu",
            "admit tiny@1.0.0 --check quantization --check long-context --check concurrency --evidence-dir gpu",
            "gate cpu gpu --release tiny@1.0.0 --evidence-dir .modelctl/evidence/tiny/1.0.0",
            "publish tiny@1.0.0", "rollout tiny@1.0.0 --env prod", "promote tiny --env prod",
            "admit tiny@1.2.0", "publish tiny@1.2.0", "rollout tiny@1.2.0 --env prod",
        ):  # fmt: skip
            done = modelctl(*line.split(), cwd=made.root, env=made.environment)
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        made.git.run("push", "--quiet", "--follow-tags", "origin", "main", "main:canary")
        yield made


def substituted(line: str, place: Scene, page: str) -> str:
    """The line with what its words stand for."""
    record = (place.root / "registry" / "tiny" / "1.2.0" / "record.yaml").read_text(encoding="utf-8")
    found = re.search(r"tree_digest: (sha256:[0-9a-f]{64})\n(?!.*tree_digest)", record, re.DOTALL)
    assert found is not None
    values = {"commit": place.commit, "port": str(place.port), "digest": found[1], "page": page}
    for word, meaning in SUBSTITUTIONS:
        line = line.replace(word, meaning.format(**values))
    return line


def execute(line: str, place: Scene) -> subprocess.CompletedProcess[str]:
    """Run one line: by a shell, where it is more than one plain modelctl command."""
    words = shlex.split(line, comments=True)
    if words[0] == "modelctl" and not set("|><;&$`") & set(line.partition("#")[0]):
        return modelctl(*words[1:], cwd=place.root, env=place.environment)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    inherited = {"PATH": path, "HOME": str(place.root), "BASE": "origin/main", "HEAD": "HEAD", "RELEASE": "tiny@1.0.0"}
    return subprocess.run(
        ["bash", "-c", line], cwd=place.root, env={**inherited, **place.environment}, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip


def allowed_codes(line: str) -> tuple[int, ...]:
    return next((codes for beginning, codes in CODES if line.startswith(beginning)), (0,))


@pytest.mark.parametrize("block", [item for item in BLOCKS if item.run], ids=lambda item: item.id)
def test_a_block_of_a_document_runs(block: Block, place: Scene) -> None:
    wrong = []
    page = Path(block.document).stem
    (place.root / "models" / page).mkdir(parents=True, exist_ok=True)
    place.git.run("reset", "--quiet", "--hard", "origin/canary")
    for line in block.run:
        if line.startswith(DECISIONS):
            place.git.run("reset", "--quiet", "--hard", "origin/canary")
        command = substituted(line, place, page)
        done = execute(command, place)
        if done.returncode not in allowed_codes(line):
            wrong.append(f"{line}\n  run as: {command}\n  exit code {done.returncode}\n{done.stdout}{done.stderr}")
    assert not wrong, "\n".join(wrong)


def test_what_is_not_run_is_told_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    every = [*BLOCKS, *blocks(PROJECT / "docs" / "tutorial.md")]
    left = [(block, line) for block in every for line in block.not_run]
    with capsys.disabled():
        print(f"\n{sum(len(block.run) for block in every)} documented lines run, {len(left)} not:")  # noqa: T201
        for block, line in left:
            print(f"  {block.id}: {line.partition('#')[0].strip()[:70]} ({block.reason})")  # noqa: T201
    assert all(len(block.reason or "") > 10 for block, _ in left)
    unused = [
        f"{block.id}: {word}"
        for block in every
        for word in block.words
        if not any(line.startswith(word) for line in block.lines)
    ]
    assert not unused, "nothing in the block begins so"
