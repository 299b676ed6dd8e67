"""Was history rewritten: each publication's signed checkpoint names a commit that must still lead to it, and the
checkpoint before, so that none can be dropped from between.

A checkpoint vouches for everything before it. What came after the last one, git alone can't vouch for; an auditor who
noted a commit may ask whether history still holds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from modelctl.admission.dsse import Envelope, disowned, signer_of
from modelctl.audit.day import RuleDays
from modelctl.audit.history import History
from modelctl.audit.memory import Memory, key_of
from modelctl.audit.publications import Publication
from modelctl.audit.violation import Unverified, Violation
from modelctl.errors import CannotDecideError, InputError
from modelctl.registry.checkpoint import Checkpoint, checkpoint_sha256
from modelctl.registry.names import CHECKPOINT_FILE

_REMEDY = (
    "compare with a clone from before (git merge-base, git reflog), find out who pushed it by force, and restore the "
    "branch; protect it against force pushes"
)


@dataclass(frozen=True, kw_only=True)
class _Link:
    publication: Publication
    sha256: str
    previous: tuple[str, ...]


def check_checkpoints(
    history: History, known: Sequence[Publication], days: RuleDays, memory: Memory
) -> Iterator[Violation | Unverified]:
    """Every contradiction about the checkpoints of all publications, in the order of history.

    A checkpoint that was found whole before is not verified again, but its place in the chain is.
    """
    blobs = history.object_ids([item.at(CHECKPOINT_FILE) for item in known])
    links: list[_Link] = []
    new = [item for item, blob in zip(known, blobs, strict=True) if blob and not memory.holds(_key(item, blob, days))]
    history.hold([item.at(CHECKPOINT_FILE) for item in new])
    for item, blob in zip(known, blobs, strict=True):
        if blob is None:
            if links:
                message = "it holds no checkpoint, though publications before it do"
                yield item.violation("checkpoint-missing", message, CHECKPOINT_FILE, commit=item.commit.id)
            continue
        key = _key(item, blob, days)
        if not memory.holds(key):
            problems, facts = _verify(history, item, days)
            yield from problems
            if facts is None:
                continue
            if not problems:
                memory.keep(key, facts)
        else:
            facts = memory.get(key, lambda: [""])
        links.append(_Link(publication=item, sha256=facts[0], previous=tuple(facts[1:])))
    yield from _chain(links)
    if known and not links:
        yield Unverified(
            reason="no publication holds a checkpoint, so nobody can tell whether the history before it was rewritten",
            remedy="the next modelctl publish writes one, which vouches for everything before it",
        )


def check_included(history: History, commits: Sequence[str]) -> Iterator[Violation]:
    """Every one of the commits, noted at another time, that does not lead to HEAD."""
    for named in commits:
        found = history.git.run(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{named}^{{commit}}", check=False
        )
        commit = found.strip() or named
        if not history.graph.is_ancestor(commit, history.head):
            message = f"{named} is not among the commits that lead to {history.head[:12]}"
            yield Violation(rule="audit.history-rewritten", message=message, remedy=_REMEDY, commit=commit)


def _verify(
    history: History, publication: Publication, days: RuleDays
) -> tuple[list[Violation | Unverified], list[str] | None]:
    content = history.content(*publication.at(CHECKPOINT_FILE)) or b""
    problems: list[Violation | Unverified] = []

    def find(rule: str, message: str, remedy: str | None = None) -> None:
        at = publication.commit.id
        problems.append(publication.violation(rule, message, CHECKPOINT_FILE, commit=at, remedy=remedy))

    try:
        envelope = Envelope.from_json(content.decode(errors="replace"), origin=CHECKPOINT_FILE)
        said = Checkpoint.of(envelope, origin=CHECKPOINT_FILE)
        signers = days.at(publication.before).signers
    except InputError as error:
        find("checkpoint-signature", error.message)
        return problems, None
    if signers is None:
        problems.append(
            Unverified(
                release=publication.id,
                reason="nothing before the publication says whose checkpoint counts",
                remedy="by a reviewed change, add policies/allowed_signers",
            )
        )
    else:
        verifiers = [signer.verifier for signer in signers]
        try:
            if signer_of(envelope, verifiers) is None:
                find("checkpoint-signature", f"no allowed key has signed it; {disowned(envelope, verifiers)}")
        except CannotDecideError as error:
            reason = f"{CHECKPOINT_FILE}: {error.message}"
            problems.append(Unverified(release=publication.id, reason=reason, remedy=error.remedy or ""))
    if said.release != publication.id:
        find("checkpoint-release", f"the checkpoint in this folder is of {said.release}")
    if not history.shallow and not history.is_ancestor(said.head, publication.commit.id):
        message = (
            f"it was published on {said.head[:12]}, which does not lead to its commit {publication.commit.id[:12]}: "
            "history before it was rewritten, or it was published on a branch that was squashed"
        )
        find("history-rewritten", message, _REMEDY)
    return problems, [checkpoint_sha256(content), *said.previous]


def _chain(links: Sequence[_Link]) -> Iterator[Violation]:
    there = {link.sha256 for link in links}
    for number, link in enumerate(links):
        gone = [name for name in link.previous if name not in there]
        if gone:
            message = (
                f"the checkpoint before it (sha256 {gone[0][:12]}…) is not in this history: a publication was dropped"
            )
        elif number and not link.previous:
            message = "it says to be the first checkpoint, and there are others before it"
        else:
            continue
        yield link.publication.violation(
            "checkpoint-chain", message, CHECKPOINT_FILE, commit=link.publication.commit.id, remedy=_REMEDY
        )


def _key(publication: Publication, blob: str, days: RuleDays) -> str:
    return key_of("checkpoint", publication.id, publication.commit.id, blob, days.state(publication.before))
