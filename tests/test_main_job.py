"""The main job as a person types it, on the real model with the real engine, clamd and S3 server: proposed,
admitted, published, rolled out, audited and pulled again. `make demo` adds the quantised releases; tests/accuracy
measures those.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelctl.checks import CHECK_IDS
from tests.support.command import modelctl

PROJECT = Path(__file__).parents[1]
MODEL = PROJECT / ".cache" / "models" / "SmolLM2-135M-Instruct"
ENGINE = PROJECT / ".venv-engine" / "bin" / "python"
ID = "smollm2@1.0.0"

RELEASE = """\
apiVersion: modelctl.dev/v1
kind: ModelRelease
metadata: {{name: smollm2, version: 1.0.0}}
spec:
  source: {{folder: {model}}}
  license: apache-2.0
  serving:
    image: vllm/vllm-openai@sha256:{zeros}
    max_model_len: 2048
    max_num_seqs: 8
    max_num_batched_tokens: 2048
    gpu: {{count: 0}}
"""
SETTINGS = """\
policy: demo
environments: [demo]
signing: {{key: .modelctl/signing_key}}
engine:
  command: {engine} -m vllm.entrypoints.openai.api_server --model {{model}}
  args: [--enforce-eager, --dtype, float32]   # quick on any processor
  env: {{VLLM_CPU_KVCACHE_SPACE: "1", VLLM_NO_USAGE_STATS: "1"}}
"""


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Path]:
    """A registry repository with one proposed release, its services running."""
    from modelctl.git import Git
    from tests.support.keys import ssh_key

    assert MODEL.is_dir(), "run: make setup"
    git = Git(tmp_path)
    git.run("init", "--quiet", "--initial-branch=main")
    git.run("config", "user.name", "Test Person")
    git.run("config", "user.email", "test@example.org")
    (tmp_path / "modelctl.yaml").write_text(SETTINGS.format(engine=ENGINE))
    (tmp_path / ".gitignore").write_text(".modelctl/\nout/\n*.json\n!admission.json\n!attestation.dsse.json\n")
    folder = tmp_path / "registry" / "smollm2" / "1.0.0"
    folder.mkdir(parents=True)
    (folder / "release.yaml").write_text(RELEASE.format(model=MODEL, zeros="0" * 64))
    environments = Path("gitops") / "environments" / "demo"
    shutil.copytree(PROJECT / environments, tmp_path / environments)
    (tmp_path / ".modelctl").mkdir()
    ssh_key(tmp_path / ".modelctl" / "signing_key")
    git.commit([tmp_path], "Propose smollm2@1.0.0", trailers={})
    assert modelctl("services", "up", cwd=tmp_path).returncode == 0
    yield tmp_path
    assert modelctl("services", "down", cwd=tmp_path).returncode == 0


@pytest.mark.engine
@pytest.mark.services
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_from_a_proposal_to_a_canary_and_back(registry: Path, tmp_path: Path) -> None:
    done = modelctl("admit", ID, "--json", "report.json", cwd=registry, timeout_s=1500)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((registry / "report.json").read_text())
    assert report["verdict"] == "admitted"
    assert not report["partial"]
    outcomes = {check["id"]: check["outcome"] for check in report["checks"]}
    assert outcomes == dict.fromkeys((*CHECK_IDS, "policy"), "passed") | {"quantization": "skipped"}
    for check in report["checks"]:
        assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", item["name"]) for item in check["measurements"])
    served = report["model"]["served_digest"]

    done = modelctl("publish", ID, "--dry-run", cwd=registry)
    assert done.returncode == 0, done.stderr
    assert "nothing was written" in done.stdout
    done = modelctl("publish", ID, cwd=registry)
    assert done.returncode == 0, done.stderr
    assert (registry / "registry" / "smollm2" / "1.0.0" / "record.yaml").is_file()

    done = modelctl("rollout", ID, "--env", "demo", cwd=registry)
    assert done.returncode == 0, done.stderr
    manifest = (registry / "gitops" / "environments" / "demo" / "smollm2" / "rollout.yaml").read_text()
    assert served in manifest

    done = modelctl("audit", "--verify", "--json", "-", cwd=registry)
    assert [event["kind"] for event in json.loads(done.stdout)["events"]][-3:] == [
        "admitted",
        "published",
        "rolled-out",
    ]

    done = modelctl("pull", ID, "out", cwd=registry)
    assert done.returncode == 0, done.stderr
    for path in MODEL.iterdir():
        assert (registry / "out" / path.name).read_bytes() == path.read_bytes()

    release = registry / "registry" / "smollm2" / "1.0.0" / "release.yaml"
    release.write_text(release.read_text().replace("max_model_len: 2048", "max_model_len: 8192"))
    done = modelctl("publish", ID, cwd=registry)
    assert done.returncode == 1
    assert "not the one that was judged" in done.stderr
