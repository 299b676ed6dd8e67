"""A signed report: an in-toto statement (v1) about the served files, in a DSSE envelope.

The subjects are the served files; the predicate holds the whole report and the list that the served tree digest follows
from. A statement is believed only after an allowed signer's signature was verified over its exact bytes, and only when
its parts agree.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelctl.admission.dsse import Envelope, SignedBy, Signer, Verifier, disowned, signer_of
from modelctl.admission.in_toto import read_statement, statement
from modelctl.admission.report import Report, as_plain
from modelctl.errors import InputError, RefusedError
from modelctl.model.tree import FileEntry, Tree

PREDICATE_TYPE = "https://modelctl.dev/admission/v1"


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What an allowed key has said: this report holds for exactly these served files."""

    report: Report
    served: Tree
    """The files without a place on disk."""
    signed_by: SignedBy


def sign(report: Report, tree: Tree, signer: Signer) -> Envelope:
    """Sign a report about its served tree. Raises `RefusedError` for another tree, and what the signer raises."""
    if report.model.served_digest != tree.digest:
        raise RefusedError(
            f"the report is of {report.model.served_digest}, the files are {tree.digest}",
            remedy="admit the release again",
        )
    return signer.seal(_statement(report, tree))


def verify(envelope: Envelope, allowed: Sequence[Verifier]) -> Statement:
    """What the envelope says, if one of `allowed` signed it. Raises `RefusedError` otherwise."""
    signer = signer_of(envelope, allowed)
    if signer is None:
        raise RefusedError(
            f"no allowed key has signed the attestation; {disowned(envelope, allowed)}",
            remedy="list the signer in policies/allowed_signers or policies/signers by review, or publish again",
        )
    try:
        said = read_statement(envelope, PREDICATE_TYPE, origin="the attestation")
        subjects = said.digests()
        served = _tree(said.predicate["served"]["files"])
        report = Report.from_json(json.dumps(said.predicate["report"]), origin="the attestation")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, InputError) as error:
        raise RefusedError(f"the attestation is signed but is no admission statement: {error}") from error
    listed = {entry.path: entry.sha256 for entry in served.files}
    if subjects != listed or len(listed) != len(served.files) or served.digest != report.model.served_digest:
        raise RefusedError("the attestation contradicts itself: subjects, file list and report name different bytes")
    return Statement(report=report, served=served, signed_by=signer)


def _statement(report: Report, tree: Tree) -> bytes:
    files = [{"path": f.path, "size_bytes": f.size_bytes, "sha256": f.sha256} for f in tree.files]
    predicate = {
        "release": report.model.release,
        "verdict": report.verdict,
        "source": {"tree_digest": report.model.source_digest},
        "served": {"tree_digest": tree.digest, "size_bytes": tree.size_bytes, "files": files},
        "policy": {"name": report.policy.name, "digest": report.policy.digest},
        "report": as_plain(report),
    }
    return statement(PREDICATE_TYPE, [(f.path, {"sha256": f.sha256}) for f in tree.files], predicate)


def _tree(files: Sequence[Mapping[str, Any]]) -> Tree:
    entries = (FileEntry(path=str(f["path"]), size_bytes=int(f["size_bytes"]), sha256=str(f["sha256"])) for f in files)
    return Tree(root=Path(), files=tuple(entries))
