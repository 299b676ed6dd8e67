"""Published to a real S3 server, rolled out, and the weights brought by the init container's own command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from modelctl.audit.verify import verify
from modelctl.model.tree import scan_tree
from modelctl.registry.store import ObjectStore
from modelctl.rollout.deploy import RolledOut, roll_out
from modelctl.services.process import running
from modelctl.services.s3 import s3_server
from tests.support.command import modelctl
from tests.support.publication import Proposal, propose
from tests.support.rollouts import IMAGE, documents, environment_values

KEYS = {"access_key": "test-access", "secret_key": "test-secret-5f3a91"}


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[str]:
    with running(s3_server(tmp_path / "s3", **KEYS)) as service:
        yield service.address


def publish(proposal: Proposal, endpoint: str) -> None:
    """Publish with a signer that the policy folder names."""
    public = (proposal.root / "key.pub").read_text(encoding="utf-8")
    signers = proposal.root / "policies" / "allowed_signers"
    signers.parent.mkdir()
    signers.write_text(f"test@example.org {public}", encoding="utf-8")
    release = proposal.folder / "release.yaml"
    text = release.read_text(encoding="utf-8")
    release.write_text(f"{text}  serving: {{image: {IMAGE}, max_model_len: 2048}}\n", encoding="utf-8")
    environment = proposal.root / "gitops" / "environments" / "prod" / "environment.yaml"
    environment.parent.mkdir(parents=True)
    with environment.open("w", encoding="utf-8") as stream:
        YAML().dump(environment_values(store__endpoint=endpoint), stream)
    proposal.git.commit([proposal.root], "Name signers and the environment", trailers={})
    proposal.admit()
    proposal.publish(ObjectStore(endpoint=endpoint, bucket="models", **KEYS))


def start_of(result: RolledOut, root: Path, target: Path) -> tuple[list[str], dict[str, str]]:
    """Command and environment of the rendered init container, with this machine's folder for the pod's."""
    file = root / "gitops" / "environments" / result.environment / "tiny" / "rollout.yaml"
    (rollout,) = documents(file.read_text(encoding="utf-8"))
    (puller,) = rollout["spec"]["template"]["spec"]["initContainers"]
    variables = {
        item["name"]: item.get("value") or KEYS[item["valueFrom"]["secretKeyRef"]["key"]] for item in puller["env"]
    }
    here = {"/models/tiny": str(target), "/tmp": str(target.parent), "/tmp/modelctl": str(target.parent / "state")}
    command = [here.get(word, word) for word in puller["command"]]
    return command, {name: here.get(value, value) for name, value in variables.items()}


@pytest.mark.services
def test_what_was_published_is_what_a_pod_gets_and_the_audit_agrees(endpoint: str, tmp_path: Path) -> None:
    proposal = propose(tmp_path / "registry")
    publish(proposal, endpoint)
    result = roll_out(proposal.root, proposal.id, "prod")
    verification = verify(proposal.root)
    assert (verification.violations, verification.unverified, verification.signatures) == ((), (), 1)

    pod = tmp_path / "pod"
    pod.mkdir()
    command, variables = start_of(result, proposal.root, pod / "tiny")
    done = modelctl(*command[1:], cwd=pod, env=variables)
    assert done.returncode == 0, done.stderr
    assert scan_tree(pod / "tiny").digest == result.tree_digest


@pytest.mark.services
def test_a_pod_with_another_digest_gets_nothing(endpoint: str, tmp_path: Path) -> None:
    proposal = propose(tmp_path / "registry")
    publish(proposal, endpoint)
    result = roll_out(proposal.root, proposal.id, "prod")
    pod = tmp_path / "pod"
    pod.mkdir()
    command, variables = start_of(result, proposal.root, pod / "tiny")
    forged = ["sha256:" + "0" * 64 if word == result.tree_digest else word for word in command]
    done = modelctl(*forged[1:], cwd=pod, env=variables)
    assert done.returncode == 1
    assert f"the bucket's manifest says that {proposal.id} is {result.tree_digest}" in done.stderr
    assert "sha256:0000" in done.stderr
    assert not (pod / "tiny").exists()
