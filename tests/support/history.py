"""A registry repository with a history: proposals, publications and rollouts as real commits, without a bucket."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from ruamel.yaml import YAML

from modelctl import __version__
from modelctl.admission.attestation import sign
from modelctl.admission.keys import KeySigner, load_signing_key
from modelctl.admission.policy import load_policy
from modelctl.admission.report import Report
from modelctl.checks import CHECK_IDS
from modelctl.git import Git
from modelctl.model.release import Metadata, release_folder
from modelctl.model.tree import FileEntry, Tree
from modelctl.registry.checkpoint import write_checkpoint
from modelctl.registry.manifest import Served
from modelctl.registry.names import ATTESTATION_FILE, RECORD_FILE, REPORT_FILE
from modelctl.registry.records import EvidenceRecord, PolicyRecord, Record, SourceRecord
from modelctl.registry.versions import tag_name
from modelctl.rollout.deploy import RolledOut, roll_out
from modelctl.rollout.steering import Order, promote
from modelctl.rollout.words import PUBLISHED_FILE
from tests.support.evidence import checked
from tests.support.keys import ssh_key
from tests.support.reports import DIGEST, a_report
from tests.support.repos import commit_file, git_repository
from tests.support.rollouts import IMAGE, NOTHING_PUBLISHED, PROJECT, environment_values

RELEASE_FILE = """\
apiVersion: modelctl.dev/v1
kind: ModelRelease
metadata: {{name: {name}, version: {version}}}
spec:
  source: {{folder: model}}
  serving:
    image: {image}
    max_model_len: 2048
"""
POLICY = """\
apiVersion: modelctl.dev/v1
kind: AdmissionPolicy
metadata: {name: demo}
spec: {description: the policy of tests}
"""


@dataclass(frozen=True)
class Registry:
    """The repository. Every method makes one commit."""

    root: Path

    @property
    def git(self) -> Git:
        return Git(self.root)

    def copy(self, root: Path) -> Registry:
        """A copy that a test may change."""
        shutil.copytree(self.root, root)
        return Registry(root)

    def folder(self, name: str = "tiny", version: str = "1.0.0") -> Path:
        return release_folder(self.root, name, version)

    def deployment(self, name: str = "tiny", env: str = "prod") -> Path:
        return self.root / "gitops" / "environments" / env / name

    def commit(self, subject: str, **trailers: str) -> str:
        """Commit everything that changed, as a person would by hand."""
        found = self.git.commit([self.root], subject, trailers={k.replace("_", "-"): v for k, v in trailers.items()})
        assert found is not None, "nothing changed"
        return found

    def edit(self, path: Path, old: str, new: str) -> None:
        """Replace words in a file that must hold them."""
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")

    def propose(self, name: str = "tiny", version: str = "1.0.0") -> str:
        folder = self.folder(name, version)
        folder.mkdir(parents=True)
        text = RELEASE_FILE.format(name=name, version=version, image=IMAGE)
        (folder / "release.yaml").write_text(text, encoding="utf-8")
        return self.commit(f"Propose {name}@{version}")

    def write_record(
        self,
        name: str = "tiny",
        version: str = "1.0.0",
        *,
        content: str = "weights",
        report: Report | None = None,
        key: Path | None = None,
    ) -> Record:
        """Write what a publication leaves in the release's folder, uncommitted."""
        sha256 = hashlib.sha256(content.encode()).hexdigest()
        entry = FileEntry(path="model.safetensors", size_bytes=len(content), sha256=sha256)
        tree = Tree(root=Path(), files=(entry,))
        report = report or an_admission(self.root, f"{name}@{version}", tree.digest)
        signed = report if report.model.served_digest == tree.digest else a_report(served_digest=tree.digest)
        envelope = sign(signed, tree, KeySigner(load_signing_key(key or self.root / "key")))
        attestation = envelope.to_json()
        record = Record(
            metadata=Metadata(name=name, version=version),
            published_at="2026-01-02T03:04:05Z",
            source=SourceRecord(description="folder model", tree_digest=DIGEST, size_bytes=1234),
            policy=PolicyRecord(name=report.policy.name, digest=report.policy.digest),
            evidence=EvidenceRecord(
                report_sha256=hashlib.sha256(report.to_json().encode()).hexdigest(),
                attestation_sha256=hashlib.sha256(attestation.encode()).hexdigest(),
                key_id=envelope.signatures[0][0],
            ),
            served=Served.of(tree, bucket="models", name=name, version=version),
        )
        folder = self.folder(name, version)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / REPORT_FILE).write_text(report.to_json(), encoding="utf-8")
        (folder / ATTESTATION_FILE).write_text(attestation, encoding="utf-8")
        (folder / RECORD_FILE).write_text(record.to_yaml(), encoding="utf-8")
        return record

    def publish(self, name: str = "tiny", version: str = "1.0.0", *, content: str = "weights") -> str:
        """Record, checkpoint and tag, as a publication does."""
        digest = self.write_record(name, version, content=content).served.tree_digest
        release = f"{name}@{version}"
        write_checkpoint(self.root, release, digest, KeySigner(load_signing_key(self.root / "key")))
        commit = self.commit(f"Publish {release}", Model_Release=release, Model_Digest=digest)
        self.git.tag(tag_name(name, version), f"{release}\n\nModel-Digest: {digest}")
        return commit

    def roll_out(self, release: str = "tiny@1.0.0", env: str = "prod", *, reason: str | None = None) -> RolledOut:
        return roll_out(self.root, release, env, reason=reason)

    def succeed(self, minor: int, *, content: str) -> None:
        """Propose, publish and roll out tiny@1.`minor`.0, which has these bytes."""
        version = f"1.{minor}.0"
        self.propose(version=version)
        self.publish(version=version, content=content)
        self.roll_out(f"tiny@{version}")


def an_admission(root: Path, release: str, served_digest: str) -> Report:
    """A report that admits a release under the policy of the working tree."""
    loaded = load_policy("demo", root)
    checks = [checked(check_id, loaded) for check_id in CHECK_IDS]
    report = a_report(*checks, release=release, served_digest=served_digest, policy_digest=loaded.digest)
    return replace(report, modelctl_version=__version__)


def a_registry(root: Path, *, signers: bool = True) -> Registry:
    """A laid-out registry repository: policies, one environment, signing key, allowed signers."""
    git_repository(root)
    registry = Registry(root)
    settings = "policy: demo\nenvironments: [prod]\nsigning: {key: key}\n"
    (root / "modelctl.yaml").write_text(settings, encoding="utf-8")
    (root / ".gitignore").write_text("key*\n.modelctl/\n", encoding="utf-8")
    ssh_key(root / "key")
    published = root / PUBLISHED_FILE
    published.parent.mkdir(parents=True)
    published.write_text(NOTHING_PUBLISHED, encoding="utf-8")
    (root / "policies" / "demo.yaml").write_text(POLICY, encoding="utf-8")
    if signers:
        public = (root / "key.pub").read_text(encoding="utf-8")
        (root / "policies" / "allowed_signers").write_text(f"test@example.org {public}", encoding="utf-8")
    environment = root / "gitops" / "environments" / "prod" / "environment.yaml"
    environment.parent.mkdir(parents=True)
    with environment.open("w", encoding="utf-8") as stream:
        YAML().dump(environment_values(), stream)
    registry.commit("Lay out the registry")
    return registry


def a_served_registry(root: Path) -> Registry:
    """The same with one release proposed, published and rolled out."""
    registry = a_registry(root)
    registry.propose()
    registry.publish()
    registry.roll_out()
    return registry


def a_canaried_registry(root: Path) -> Registry:
    """tiny@1.0.0 is stable in prod, and tiny@1.1.0 with other bytes is the canary."""
    registry = a_served_registry(root)
    registry.succeed(1, content="better")
    return registry


def a_long_registry(root: Path, *, minors: int, promoted: int) -> Registry:
    """tiny@1.0.0 to tiny@1.`minors`.0, rolled out to prod one after the other; tiny@1.`promoted`.0 was promoted.

    The bytes of tiny@1.N.0 are the text of N. The policy `demo` is this repository's own.
    """
    registry = a_served_registry(root)
    commit_file(registry.git, "policies/demo.yaml", (PROJECT / "policies" / "demo.yaml").read_text(), "Set the policy")
    for minor in range(1, minors + 1):
        registry.succeed(minor, content=str(minor))
        if minor == promoted:
            promote(registry.root, Order(name="tiny", environment="prod"))
    return registry
