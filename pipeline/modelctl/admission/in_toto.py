"""In-toto statements (v1): what every signed text here is, written and read in one place.

A statement names its subjects by their digests and says something of them, whose form the predicate's type names.
Reading one believes nothing: whose it is follows from the envelope's signature, which is the caller's business.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from modelctl.admission.dsse import PAYLOAD_TYPE, Envelope
from modelctl.errors import InputError

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """What a statement names and says."""

    subjects: tuple[tuple[str, Mapping[str, str]], ...]
    """Names with their digests by algorithm, in the statement's order; a name may come twice."""
    predicate: Mapping[str, Any]

    def digests(self, algorithm: str = "sha256") -> dict[str, str]:
        """Each subject's digest. Raises `InputError` for one without it, and for a name that comes twice."""
        found = {name: digests[algorithm] for name, digests in self.subjects if algorithm in digests}
        if len(found) != len(self.subjects):
            raise InputError(f"a subject comes twice, or without its {algorithm}")
        return found


def statement(
    predicate_type: str, subjects: Iterable[tuple[str, Mapping[str, str]]], predicate: Mapping[str, object]
) -> bytes:
    """The bytes that are signed: JSON with sorted keys and no space, UTF-8."""
    body = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": dict(digests)} for name, digests in subjects],
        "predicateType": predicate_type,
        "predicate": predicate,
    }
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def read_statement(envelope: Envelope, predicate_type: str, *, origin: str) -> Claimed:
    """What an envelope's payload says. Raises `InputError` that names `origin` for anything but a statement of this
    predicate's type."""
    try:
        body = json.loads(envelope.payload)
        kinds = (envelope.payload_type, body["_type"], body["predicateType"])
        claimed = Claimed(
            subjects=tuple(
                (str(item["name"]), {str(name): str(digest) for name, digest in item["digest"].items()})
                for item in body["subject"]
            ),
            predicate=dict(body["predicate"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{origin}: no in-toto statement: {error!r}") from error
    for found, wanted in zip(kinds, (PAYLOAD_TYPE, STATEMENT_TYPE, predicate_type), strict=True):
        if found != wanted:
            raise InputError(f"{origin}: says {found}, wanted {wanted}")
    return claimed
