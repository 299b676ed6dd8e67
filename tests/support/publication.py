"""A registry repository with one admitted release, ready to be published; as a program, it publishes and dies half-way.

`python -m tests.support.publication ROOT ENDPOINT BUCKET MOMENT` kills itself with SIGKILL at the moment named in
`MOMENTS`; the store's keys come from the environment.
"""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import modelctl.registry.publish as publication
from modelctl.admission.policy import LoadedPolicy, load_policy
from modelctl.checks import CHECK_IDS
from modelctl.git import Git
from modelctl.model.tree import Tree, hash_file, scan_tree
from modelctl.progress import SILENT, Progress
from modelctl.registry import recording
from modelctl.registry.listed import keep_list
from modelctl.registry.publish import Published, publish
from modelctl.registry.store import ObjectStore, StoredObject
from modelctl.settings import Workspace, load_workspace
from tests.support.evidence import checked
from tests.support.keys import ssh_key
from tests.support.reports import a_report
from tests.support.repos import git_repository

PROJECT = Path(__file__).parents[2]
RELEASE_FILE = """\
apiVersion: modelctl.dev/v1
kind: ModelRelease
metadata: {{name: {name}, version: {version}}}
spec:
  source: {{folder: model}}
"""
POLICY = load_policy("demo", PROJECT)
MOMENTS: dict[str, tuple[object, str, int]] = {
    "within-the-files": (ObjectStore, "put_whole", 3),  # the first is of the probe
    "before-the-manifest": (publication, "_write_manifest", 1),
    "after-the-manifest": (publication, "remember_contents", 1),
    "before-the-record": (publication, "write_record", 1),
    "within-the-record": (recording, "write_whole", 6),
    "before-the-commit": (publication, "commit_record", 1),
    "before-the-tag": (Git, "tag", 1),
}


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A release in a registry repository."""

    root: Path
    name: str = "tiny"
    version: str = "1.0.0"

    @property
    def id(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def git(self) -> Git:
        return Git(self.root)

    @property
    def folder(self) -> Path:
        return self.root / "registry" / self.name / self.version

    @property
    def report(self) -> Path:
        return self.root / f"report-{self.version}.json"

    @property
    def workspace(self) -> Workspace:
        return load_workspace(self.root, environ={})

    def tree(self) -> Tree:
        return scan_tree(self.root / "model")

    def admit(self, *, policy_digest: str = POLICY.digest) -> None:
        """Write the report that an admission of the model folder would leave."""
        digest = self.tree().digest
        checks = [checked(check_id, POLICY) for check_id in CHECK_IDS]
        report = a_report(*checks, release=self.id, served_digest=digest, policy_digest=policy_digest)
        judged = hash_file(self.folder / "release.yaml")
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        model = replace(report.model, source_digest=digest, release_sha256=judged)
        report = replace(report, model=model, created_at=now)
        self.report.write_text(report.to_json(), encoding="utf-8")
        keep_list(self.report, self.tree())

    def next_version(self, version: str) -> Proposal:
        """Another version of the same model folder, proposed and admitted."""
        proposal = Proposal(root=self.root, name=self.name, version=version)
        proposal.folder.mkdir(parents=True)
        release = RELEASE_FILE.format(name=self.name, version=version)
        (proposal.folder / "release.yaml").write_text(release, encoding="utf-8")
        proposal.admit()
        return proposal

    def publish(
        self,
        store: ObjectStore,
        *,
        tree: Tree | None = None,
        policy: LoadedPolicy = POLICY,
        staged: Mapping[str, StoredObject] | None = None,
        progress: Progress = SILENT,
        dry_run: bool = False,
    ) -> Published:
        return publish(
            self.workspace,
            self.id,
            report_path=self.report,
            tree=tree or self.tree(),
            store=store,
            policy=policy,
            staged=staged,
            progress=progress,
            dry_run=dry_run,
        )


def propose(root: Path, *, files: dict[str, bytes] | None = None, name: str = "tiny") -> Proposal:
    """A new registry repository with the release file committed, a model folder, a signing key and a report."""
    git = git_repository(root)
    model = files or {"config.json": b"{}\n", "model.safetensors": b"\0" * 5000, "extra/größe 1.txt": b"", "z": b"z"}
    for path, content in model.items():
        target = root / "model" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    (root / ".gitignore").write_text("model/\nkey*\nreport*\n.modelctl/\n", encoding="utf-8")
    (root / "modelctl.yaml").write_text("signing: {key: key}\n", encoding="utf-8")
    ssh_key(root / "key", kind="ecdsa")  # one key for attestation and model
    proposal = Proposal(root=root, name=name)
    proposal.folder.mkdir(parents=True)
    (proposal.folder / "release.yaml").write_text(RELEASE_FILE.format(name=name, version="1.0.0"), encoding="utf-8")
    git.run("add", "--all")
    git.run("commit", "--quiet", "--message", f"Propose {proposal.id}")
    proposal.admit()
    return proposal


def publish_and_die(proposal: Proposal, store: ObjectStore, moment: str, *, environ: dict[str, str]) -> int:
    """Publish in another process that is killed at `moment`; returns its exit status."""
    arguments = [str(proposal.root), store.place.endpoint, store.bucket, moment]
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.publication", *arguments],
        cwd=PROJECT,
        env={**os.environ, **environ},
        check=False,
        timeout=400,
    )
    return done.returncode


def _die_at(owner: object, attribute: str, call: int) -> None:
    original: Callable[..., object] = getattr(owner, attribute)
    calls = 0

    def counted(*arguments: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        if calls == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments, **options)

    setattr(owner, attribute, counted)


def main(root: str, endpoint: str, bucket: str, moment: str) -> None:
    """Publish `tiny@1.0.0` of `root`, and die at the moment."""
    _die_at(*MOMENTS[moment])
    access_key, secret_key = os.environ["TEST_ACCESS_KEY"], os.environ["TEST_SECRET_KEY"]
    store = ObjectStore(endpoint=endpoint, bucket=bucket, access_key=access_key, secret_key=secret_key)
    Proposal(root=Path(root)).publish(store)


if __name__ == "__main__":
    main(*sys.argv[1:])
