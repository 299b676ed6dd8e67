"""Did somebody sign for a release who could: its attestation and its `model.sig`, by the signers of the day before."""

from __future__ import annotations

from collections.abc import Iterator

from modelctl.admission.attestation import Statement, verify
from modelctl.admission.dsse import Envelope
from modelctl.admission.model_signature import SIGNATURE_FILE, verify_model
from modelctl.admission.names import SIGNERS_FILE
from modelctl.admission.report import Report
from modelctl.audit.day import RuleDays
from modelctl.audit.publications import Publication
from modelctl.audit.violation import Unverified, Violation
from modelctl.errors import CannotDecideError, InputError, RefusedError
from modelctl.registry.names import ATTESTATION_FILE, RECORD_FILE, REPORT_FILE
from modelctl.registry.records import Record

Result = Violation | Unverified | Statement


def check_attestation(
    days: RuleDays, publication: Publication, record: Record, report: Report | None, attestation: bytes
) -> Iterator[Result]:
    """The `Statement` that was signed about a record, or why there is none that counts."""
    try:
        signers = days.at(publication.before).signers
    except InputError as error:
        yield publication.violation("signature", error.message, ATTESTATION_FILE)
        return
    if signers is None:
        yield Unverified(
            release=publication.id,
            reason=f"no {SIGNERS_FILE} before the publication, so nobody says whose signature counts",
            remedy=f"by a reviewed change, add {SIGNERS_FILE}; later publications are verified against it",
        )
        return
    try:
        envelope = Envelope.from_json(attestation.decode(errors="replace"), origin=ATTESTATION_FILE)
        statement = verify(envelope, [signer.verifier for signer in signers])
    except (RefusedError, InputError) as error:
        yield publication.violation("signature", error.message, ATTESTATION_FILE)
        return
    except CannotDecideError as error:
        yield Unverified(
            release=publication.id, reason=f"{ATTESTATION_FILE}: {error.message}", remedy=error.remedy or ""
        )
        return
    signer, named = statement.signed_by, record.evidence
    if signer.key_id != named.key_id:
        message = f"signed by {signer.key_id}, the record names {named.key_id}"
        yield publication.violation("signer-recorded", message, RECORD_FILE)
    if named.identity not in (None, signer.identity):
        message = f"signed by {signer.name}, the record names {named.identity}"
        yield publication.violation("signer-recorded", message, RECORD_FILE)
    if statement.served.digest != record.served.tree_digest:
        message = f"signed was {statement.served.digest}, the record says {record.served.tree_digest}"
        yield publication.violation("digest-signed", message, ATTESTATION_FILE)
    elif report is not None and statement.report != report:
        yield publication.violation("report-signed", f"{REPORT_FILE} is not the signed report", REPORT_FILE)
    else:
        yield statement


def check_model_signature(
    days: RuleDays, publication: Publication, record: Record, signature: bytes
) -> Iterator[Result]:
    """Why a `model.sig` does not count for the files of a record."""
    try:
        signers = days.at(publication.before).signers
        if signers is not None:
            verify_model(signature, record.served.tree, signers, origin=SIGNATURE_FILE)
    except (RefusedError, InputError) as error:
        yield publication.violation("model-signature", error.message, SIGNATURE_FILE)
    except CannotDecideError as error:
        yield Unverified(release=publication.id, reason=f"{SIGNATURE_FILE}: {error.message}", remedy=error.remedy or "")
