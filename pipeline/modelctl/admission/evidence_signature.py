"""A runner's signature over its evidence: `report.sig.json` beside `report.json`.

An in-toto statement (v1) in a DSSE envelope. Its subjects are the report and every file of raw
evidence by sha256; so the runner's key vouches for the report and, through it, for what lies beside it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from modelctl.admission.dsse import Envelope, Signer, disowned, signer_of
from modelctl.admission.in_toto import read_statement, statement
from modelctl.admission.report import Report
from modelctl.admission.signers import AllowedSigner
from modelctl.documents import read_text
from modelctl.errors import InputError, RefusedError

SIGNATURE_FILE = "report.sig.json"
PREDICATE_TYPE = "https://modelctl.dev/evidence/v1"
REPORT_NAME = "report.json"


def sign_evidence(report: Report, signer: Signer) -> str:
    """The text of the signature's file. Raises what the signer raises."""
    files = {item.path: item.sha256 for check in report.checks for item in check.evidence}
    subjects = {REPORT_NAME: _sha256(report.to_json()), **files}
    predicate = {
        "release": report.model.release,
        "source_digest": report.model.source_digest,
        "served_digest": report.model.served_digest,
        "policy_digest": report.policy.digest,
        "checks": [check.id for check in report.checks],
        "created_at": report.created_at,
    }
    named = [(name, {"sha256": sha256}) for name, sha256 in sorted(subjects.items())]
    return signer.seal(statement(PREDICATE_TYPE, named, predicate)).to_json()


def verify_evidence(folder: Path, report_text: str, signers: Sequence[AllowedSigner]) -> str | None:
    """The fingerprint of the allowed key that signed this folder's report; None when it is not signed.

    Raises `RefusedError` for a signature that is there and does not hold.
    """
    path = folder / SIGNATURE_FILE
    if not path.is_file():
        return None
    try:
        envelope = Envelope.from_json(read_text(path), origin=SIGNATURE_FILE)
    except InputError as error:
        raise RefusedError(error.message) from error
    verifiers = [item.verifier for item in signers]
    signer = signer_of(envelope, verifiers)
    if signer is None:
        raise RefusedError(
            f"no allowed key has signed {SIGNATURE_FILE}; {disowned(envelope, verifiers)}",
            remedy="list the runner's key in policies/allowed_signers or policies/signers by a reviewed change",
        )
    try:
        subjects = read_statement(envelope, PREDICATE_TYPE, origin=SIGNATURE_FILE).digests()
    except InputError as error:
        raise RefusedError(f"signed, but no statement about evidence: {error.message}") from error
    if subjects.get(REPORT_NAME) != _sha256(report_text):
        raise RefusedError(f"{SIGNATURE_FILE} is of another report than the one beside it")
    return signer.key_id


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
