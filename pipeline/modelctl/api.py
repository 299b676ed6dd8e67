"""modelctl as a library: what the commands of the same names do, without a terminal.

`admit` and `gate` decide and return a report; `publish`, `pull` and `size` do one thing and say what they did. Each
takes a workspace, the registry repository with its settings: `load_workspace(Path("."))`. All raise `ModelctlError`
with a remedy. Everything else in the package may change with any version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from modelctl.errors import InputError, ModelctlError
from modelctl.progress import SILENT, Progress
from modelctl.settings import Workspace, load_workspace

if TYPE_CHECKING:
    from modelctl.admission.admit import Admission, Request, admit
    from modelctl.admission.gate import Gated, GateRequest, gate
    from modelctl.admission.report import Report
    from modelctl.model.tree import Tree
    from modelctl.registry.publish import Published
    from modelctl.registry.pull import Pulled
    from modelctl.registry.staged import Staged
    from modelctl.registry.trust import Trusted
    from modelctl.rollout.lookup import Found
    from modelctl.sizing.facts import ModelFacts
    from modelctl.sizing.gpus import Gpu
    from modelctl.sizing.plan import Demand, Plan

__all__ = [
    "Admission", "Demand", "GateRequest", "Gated", "Gpu", "ModelctlError", "Plan", "Progress", "Published", "Pulled",
    "PulledRelease", "Report", "Request", "Workspace", "admit", "gate", "load_workspace", "publish", "pull", "size",
]  # fmt: skip

_ELSEWHERE = {
    "Admission": "modelctl.admission.admit", "Request": "modelctl.admission.admit", "admit": "modelctl.admission.admit",
    "GateRequest": "modelctl.admission.gate", "Gated": "modelctl.admission.gate", "gate": "modelctl.admission.gate",
    "Report": "modelctl.admission.report", "Published": "modelctl.registry.publish",
    "Pulled": "modelctl.registry.pull", "Demand": "modelctl.sizing.plan", "Plan": "modelctl.sizing.plan",
    "Gpu": "modelctl.sizing.gpus",
}  # fmt: skip
"""What is imported when it is first named: a download needs nothing of an admission."""


def __getattr__(name: str) -> object:
    if name not in _ELSEWHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ELSEWHERE[name]), name)


@dataclass(frozen=True, kw_only=True)
class PulledRelease:
    """A download that ended well: which release it is, why its bytes are believed, and what was done."""

    found: Found
    trust: Trusted
    done: Pulled

    @property
    def grounds(self) -> tuple[str, ...]:
        """What the bytes were held against, for a person."""
        return self.trust.grounds() or ("the bucket's own list",)


def publish(
    workspace: Workspace,
    release: str,
    *,
    report: Path | None = None,
    dry_run: bool = False,
    progress: Progress = SILENT,
) -> Published:
    """Upload an admitted release (`name@version`) once, record it in git and tag it; `dry_run` only checks.

    `report` is the admission's, by default the one that `admit` kept. Raises `RefusedError` when it does not admit
    these bytes under the policy that holds, `InputError`, `StoreError`.
    """
    from modelctl.admission.policy import load_policy
    from modelctl.admission.report import Report
    from modelctl.admission.subject import fetch_source, release_path
    from modelctl.model.release import load_release
    from modelctl.registry import publish as publication
    from modelctl.registry.eligibility import read_report, served_tree
    from modelctl.registry.listed import scan_by_list
    from modelctl.registry.staged import read_staged, unstage
    from modelctl.registry.store import ObjectStore

    proposal = load_release(release_path(release, workspace.root))
    policy = load_policy(proposal.spec.policy or workspace.settings.policy, workspace.root)
    metadata = proposal.metadata
    kept = report or workspace.state / "evidence" / metadata.name / metadata.version / "report.json"
    read = Report.from_json(read_report(kept, release), origin=str(kept))
    store = ObjectStore.open(workspace.settings.store, state=workspace.state)
    elsewhere: list[Staged] = []
    with TemporaryDirectory(dir=workspace.make_state(), prefix="staged-") as folder:

        def staged(digest: str) -> Tree | None:
            elsewhere.extend(filter(None, [read_staged(store, digest, Path(folder), progress)]))
            return elsewhere[0].tree if elsewhere else None

        scan = scan_by_list(kept, read.model.served_digest)
        tree = served_tree(
            read,
            state=workspace.state,
            source=lambda: fetch_source(proposal.spec.source, workspace.root, workspace, progress, scan=scan).tree,
            staged=staged,
            scan=scan,
            progress=progress,
        )
        done = publication.publish(
            workspace,
            release,
            report_path=kept,
            tree=tree,
            store=store,
            policy=policy,
            staged=elsewhere[0].sources if elsewhere else None,
            progress=progress,
            dry_run=dry_run,
        )
    if not dry_run:
        unstage(store, tree.digest)
    return done


def pull(
    workspace: Workspace,
    release: str,
    folder: Path,
    *,
    digest: str | None = None,
    source: str | None = None,
    signers: Path | None = None,
    repair: bool = False,
    progress: Progress = SILENT,
) -> PulledRelease:
    """Download a published release into `folder`, verified; a second call keeps what is right and resumes.

    `release` is `name@VERSION`, where VERSION may be `latest`, `stable:ENV`, `canary:ENV` or a digest; `digest` is the
    tree digest that it must be; `source` (`s3://BUCKET`) asks that bucket alone and no git. Raises `RefusedError` for
    other bytes or a signature that is not allowed, `InputError`, `StoreError`.
    """
    from modelctl.registry import pull as download
    from modelctl.registry.trust import signers_of, trusted
    from modelctl.rollout.lookup import allowed_signers, find, find_in_bucket, open_store

    if source is None:
        found = find(workspace, release)
        store = open_store(workspace, None)
    else:
        store = open_store(workspace, source, release)
        found = find_in_bucket(store, release)
    named = allowed_signers(workspace, signers)
    allowed = signers_of(workspace.root, named) if named or source is None else None
    if found.why:
        progress.note(found.why)
    trust = trusted(
        store,
        found.name,
        found.version,
        root=workspace.root,
        record=found.record,
        digest=digest or found.digest,
        signers=allowed,
    )
    if trust.signed is None:
        progress.note(
            f"the attestation of {found.id} was not verified: nobody says who may sign "
            "(policies/allowed_signers, --signers)"
        )
    if not trust.grounds():
        progress.note(f"nothing but the bucket's own list says what {found.id} is; --digest or --signers would")
    done = download.pull(store, trust.served, folder, repair=repair, progress=progress)
    return PulledRelease(found=found, trust=trust, done=done)


def size(
    workspace: Workspace,
    repo: str,
    *,
    gpus: Sequence[str] = (),
    max_gpus: int = 8,
    demand: Mapping[str, object] | None = None,
) -> tuple[Plan, ...]:
    """How a model would fit: for each kind of GPU, by default all that are known, the plan on the fewest, or why not.

    `repo` is a folder, a Hub id, a release file or `name@version`. `demand` names fields of `Demand` (`length` and
    `streams` in tokens and requests); a release file states its own. Raises `InputError`, `CannotDecideError`.
    """
    from modelctl.sizing.gpus import GPUS, find_gpu
    from modelctl.sizing.plan import best_plan

    kinds = [find_gpu(name) for name in gpus] if gpus else list(GPUS.values())
    facts, wanted = _sized(repo, workspace, dict(demand or {}))
    return tuple(best_plan(facts, gpu, wanted, most=max_gpus) for gpu in kinds)


def _sized(repo: str, workspace: Workspace, given: Mapping[str, object]) -> tuple[ModelFacts, Demand]:
    """The model that is meant, and the demand: what was given, else what its release file says."""
    from modelctl.admission.subject import find_release
    from modelctl.model.release import load_release
    from modelctl.sizing.peek import peek
    from modelctl.sizing.plan import Demand

    path = find_release(repo, workspace.root)
    if path is None:
        return peek(repo, Path.cwd()).facts(), Demand(**given)  # type: ignore[arg-type]
    release = load_release(path)
    serving, source = release.spec.serving, release.spec.source
    stated = {
        "length": serving.max_model_len, "streams": serving.max_num_seqs,
        "utilisation": serving.gpu_memory_utilization, "batched_tokens": serving.max_num_batched_tokens,
    }  # fmt: skip
    where = f"{source.hub}@{source.revision or 'main'}" if source.hub else source.folder
    if where is None:
        raise InputError(
            f"{repo}: its source is in S3 or DVC, which would have to be fetched whole",
            remedy="modelctl size FOLDER, the one that it was made from",
        )
    return peek(str(where), workspace.root).facts(), Demand(**{**stated, **given})  # type: ignore[arg-type]
