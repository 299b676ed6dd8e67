"""In-toto statements: what is written is read, and everything else is named with what was wanted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from modelctl.admission.dsse import PAYLOAD_TYPE, Envelope
from modelctl.admission.in_toto import read_statement, statement
from modelctl.errors import InputError

KIND = "https://example.org/kind/v1"
SUBJECTS = [("b", {"sha256": "22"}), ("größe", {"sha256": "11", "gitCommit": "aa"})]


def sealed(payload: bytes, payload_type: str = PAYLOAD_TYPE) -> Envelope:
    return Envelope(payload=payload, payload_type=payload_type, signatures=())


def test_what_is_written_is_read() -> None:
    text = statement(KIND, SUBJECTS, {"z": 1, "a": [None]})
    assert (
        text
        == (
            '{"_type":"https://in-toto.io/Statement/v1","predicate":{"a":[null],"z":1},'
            '"predicateType":"https://example.org/kind/v1","subject":[{"digest":{"sha256":"22"},"name":"b"},'
            '{"digest":{"gitCommit":"aa","sha256":"11"},"name":"größe"}]}'
        ).encode()
    )
    said = read_statement(sealed(text), KIND, origin="it")
    assert said.subjects == tuple(SUBJECTS)
    assert said.predicate == {"z": 1, "a": [None]}
    assert said.digests() == {"b": "22", "größe": "11"}


def test_digests_of_another_algorithm_or_of_a_name_twice() -> None:
    said = read_statement(sealed(statement(KIND, SUBJECTS, {})), KIND, origin="it")
    with pytest.raises(InputError, match="without its gitCommit"):
        said.digests("gitCommit")
    said = read_statement(sealed(statement(KIND, [*SUBJECTS, SUBJECTS[0]], {})), KIND, origin="it")
    with pytest.raises(InputError, match="twice"):
        said.digests()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda body: body.update(predicateType="other"), f"it: says other, wanted {KIND}"),
        (lambda body: body.update(_type="v0"), "it: says v0, wanted https://in-toto.io/Statement/v1"),
        (lambda body: body.pop("subject"), "it: no in-toto statement"),
        (lambda body: body["subject"].append("x"), "it: no in-toto statement"),
        (lambda body: body["subject"][0].update(digest=["sha256"]), "it: no in-toto statement"),
        (lambda body: body.update(predicate=3), "it: no in-toto statement"),
    ],
)
def test_another_statement(change: Callable[[dict[str, Any]], object], reason: str) -> None:
    body = json.loads(statement(KIND, SUBJECTS, {}))
    change(body)
    with pytest.raises(InputError, match=reason):
        read_statement(sealed(json.dumps(body).encode()), KIND, origin="it")


@pytest.mark.parametrize("payload", [b"", b"[]", b"\xff", b"[" * 100_000])
def test_no_statement_at_all(payload: bytes) -> None:
    with pytest.raises(InputError, match="it: no in-toto statement"):
        read_statement(sealed(payload), KIND, origin="it")


def test_another_payload() -> None:
    with pytest.raises(InputError, match="says text/plain, wanted application/vnd"):
        read_statement(sealed(statement(KIND, SUBJECTS, {}), "text/plain"), KIND, origin="it")
