"""A registry repository with a long history, written by `git fast-import`: every release proposed, approved by a merge,
published with a signed report and checkpoint, rolled out and promoted, so that all of its claims agree."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import IO

from modelctl.admission.attestation import sign
from modelctl.admission.keys import KeySigner, load_signing_key
from modelctl.documents import parse_yaml, validate
from modelctl.registry.checkpoint import Checkpoint, checkpoint_sha256
from modelctl.registry.names import ATTESTATION_FILE, CHECKPOINT_FILE, RECORD_FILE, REPORT_FILE
from modelctl.registry.records import Record
from modelctl.rollout.words import PROMOTED_ANNOTATION
from tests.support.history import RELEASE_FILE, Registry, a_registry, an_admission
from tests.support.rollouts import IMAGE

COMMITS_EACH = 5
FIRST = 1_760_000_000
"""Seconds since 1970 of the first of them."""


@dataclass
class _Import:
    """A running fast-import."""

    stdin: IO[bytes]
    stdout: IO[bytes]
    when: int = FIRST
    mark: int = 0
    marks: dict[str, str] = field(default_factory=dict)
    """Of each commit of this run, by id: it can't be named by its id until all are written."""

    def commit(self, message: str, files: dict[str, bytes], parents: tuple[str, ...], ref: str = "main") -> str:
        """One commit; its id. `parents` with the merged one second."""
        self.when += 600
        self.mark += 1
        origins = [self.marks.get(parent, parent) for parent in parents]
        text = message.encode()
        self.stdin.write(
            f"commit refs/heads/{ref}\nmark :{self.mark}\ncommitter Test Person <test@example.org> {self.when} +0000\n"
            f"data {len(text)}\n".encode()
            + text
            + b"\n"
        )
        self.stdin.write(f"from {origins[0]}\n".encode() + b"".join(f"merge {p}\n".encode() for p in origins[1:]))
        for path, content in files.items():
            self.stdin.write(f"M 100644 inline {path}\ndata {len(content)}\n".encode() + content + b"\n")
        self.stdin.write(f"\nget-mark :{self.mark}\n".encode())
        self.stdin.flush()
        made = self.stdout.readline().decode().strip()
        self.marks[made] = f":{self.mark}"
        return made

    def tag(self, name: str, commit: str, message: str) -> None:
        text = message.encode()
        self.stdin.write(
            f"tag {name}\nfrom {self.marks[commit]}\ntagger Test Person <test@example.org> {self.when} +0000\n"
            f"data {len(text)}\n".encode()
            + text
            + b"\n"
        )


def long_history(root: Path, releases: int, *, names: int = 20, padding: int = 0) -> Registry:
    """`releases` releases of `names` models in five commits each; `padding` bytes more in every report.

    The commits of one release: proposed on a branch, merged, published, rolled out, promoted.
    """
    registry = a_registry(root)
    git = registry.git
    registry.propose()
    registry.publish()
    registry.roll_out()
    place = "gitops/environments/prod"
    manifest = (root / place / "tiny" / "rollout.yaml").read_text(encoding="utf-8")
    record = (registry.folder() / RECORD_FILE).read_text(encoding="utf-8")
    served = registry.git.run("log", "-1", "--format=%(trailers:key=Model-Digest,valueonly)").strip()
    signer = KeySigner(load_signing_key(root / "key"))
    report = an_admission(root, "tiny@1.0.0", served)
    if padding:
        report = replace(report, checks=(replace(report.checks[0], warnings=("w" * padding,)), *report.checks[1:]))
    tree = validate(parse_yaml(record, origin="record"), Record, origin="record").served.tree
    command = ["git", "-C", str(root), "fast-import", "--quiet", "--force"]
    head = git.head() or ""
    kept = (registry.folder() / CHECKPOINT_FILE).read_bytes()
    previous = (checkpoint_sha256(kept),)
    old = {
        name: sha256((registry.folder() / name).read_bytes()).hexdigest() for name in (REPORT_FILE, ATTESTATION_FILE)
    }
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        run = _Import(process.stdin, process.stdout)
        for number in range(releases):
            name, version = f"model-{number % names:02}", f"1.{number // names}.0"
            release, folder = f"{name}@{version}", f"registry/{name}/{version}"
            proposal = RELEASE_FILE.format(name=name, version=version, image=IMAGE).encode()
            side = run.commit(f"Propose {release}", {f"{folder}/release.yaml": proposal}, (head,), "side")
            merged = f"Merge pull request #{number} from ann/side\n\nReviewed-by: Rob <rob@example.org>"
            head = run.commit(merged, {f"{folder}/release.yaml": proposal}, (head, side))
            mine = replace(report, model=replace(report.model, release=release))
            text = mine.to_json()
            attestation = sign(mine, tree, signer).to_json()
            said = Checkpoint(release=release, tree_digest=served, head=head, previous=previous)
            checkpoint = signer.seal(said.statement()).to_json().encode()
            previous = (checkpoint_sha256(checkpoint),)
            own = record.replace("name: tiny\n", f"name: {name}\n").replace("version: 1.0.0", f"version: {version}")
            own = own.replace("tiny/1.0.0", f"{name}/{version}")
            own = own.replace(old[REPORT_FILE], sha256(text.encode()).hexdigest())
            own = own.replace(old[ATTESTATION_FILE], sha256(attestation.encode()).hexdigest())
            files = {
                f"{folder}/{REPORT_FILE}": text.encode(),
                f"{folder}/{ATTESTATION_FILE}": attestation.encode(),
                f"{folder}/{CHECKPOINT_FILE}": checkpoint,
                f"{folder}/{RECORD_FILE}": own.encode(),
            }
            trailers = f"Model-Release: {release}\nModel-Digest: {served}"
            head = run.commit(f"Publish {release}\n\n{trailers}", files, (head,))
            run.tag(f"{name}@v{version}", head, f"{release}\n\nModel-Digest: {served}\n")
            rollout = manifest.replace("tiny@1.0.0", release).replace("tiny/1.0.0", f"{name}/{version}")
            rollout = rollout.replace("tiny", name)
            path = f"{place}/{name}/rollout.yaml"
            trailers += "\nEnvironment: prod"
            head = run.commit(f"Roll out {release} to prod\n\n{trailers}", {path: rollout.encode()}, (head,))
            promoted = rollout.replace("  annotations:\n", f"  annotations:\n    {PROMOTED_ANNOTATION}: {release}\n", 1)
            message = f"Promote {release} in prod\n\n{trailers}\nPromoted: {release}"
            head = run.commit(message, {path: promoted.encode()}, (head,))
        process.stdin.close()
        assert process.wait() == 0
    git.run("branch", "--delete", "--force", "side")
    git.run("reset", "--quiet", "--hard", "main")
    return registry
