"""What a broken or foreign server answers becomes one sentence and the next command, without a credential in it."""

from __future__ import annotations

import pytest

from modelctl.model.s3_faults import NoSuchBucketError, NotSupportedError, StoreError, StoreUnavailableError
from modelctl.registry.store import ObjectStore
from tests.support.broken_s3 import Answer, broken_s3

XML = "application/xml"
SECRET = "a-secret-that-must-stay-one"


def a_store(url: str) -> ObjectStore:
    return ObjectStore(endpoint=url, bucket="models", access_key="an-id", secret_key=SECRET, region="us-east-1")


def xml_error(code: str, message: str = "words") -> bytes:
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()


@pytest.mark.parametrize(
    ("answer", "kind", "words", "remedy"),
    [
        ((403, XML, xml_error("AccessDenied")), StoreError, "refused the access key", "MODELCTL_STORE_ACCESS_KEY"),
        ((403, "text/xml", xml_error("SignatureDoesNotMatch")), StoreError, "refused the access key", "SECRET_KEY"),
        ((403, "text/html", b"<h1>Forbidden</h1>"), StoreError, "refused the access key", "SECRET_KEY"),
        ((404, "text/xml", xml_error("NoSuchBucket")), NoSuchBucketError, "no bucket 'models'", "store.bucket"),
        ((404, "text/html", b"<h1>Hello</h1>"), StoreError, "not as an S3 server does", "console"),
        ((403, XML, xml_error("RequestTimeTooSkewed")), StoreError, "clocks", "timedatectl"),
        ((501, XML, xml_error("NotImplemented")), NotSupportedError, "does not know how", "modelctl doctor"),
        ((507, XML, xml_error("XMinioStorageFull", "disk is full")), StoreError, "disk is full", "log of the object"),
        pytest.param(
            (503, XML, xml_error("SlowDown")),
            StoreUnavailableError,
            "503",
            "same command again",
            marks=pytest.mark.services,
        ),
    ],
)
def test_an_answer_becomes_a_sentence(answer: Answer, kind: type[StoreError], words: str, remedy: str) -> None:
    with broken_s3(lambda *_: answer) as server, pytest.raises(kind) as caught:
        list(a_store(server.url).stream("k"))
    assert words in caught.value.message
    assert remedy in str(caught.value.remedy)
    for credential in (SECRET, "X-Amz-Signature", "X-Amz-Credential"):
        assert credential not in f"{caught.value.message}{caught.value.remedy}"


@pytest.mark.parametrize("body", [b"<h1>Hello</h1>", b"<p>not closed", b"", b"{}"])
def test_a_page_where_a_listing_is_wanted(body: bytes) -> None:
    with broken_s3(lambda *_: (200, "text/html", body)) as server, pytest.raises(StoreError, match="cannot list m/"):
        a_store(server.url).sizes("m/")


@pytest.mark.services
def test_a_server_that_hangs_up_is_unavailable() -> None:
    with broken_s3(lambda *_: None) as server, pytest.raises(StoreUnavailableError, match="is not reachable") as caught:
        a_store(server.url).put_if_absent("k", b"x")
    assert "X-Amz" not in caught.value.message


def test_a_server_without_conditional_writes_gets_a_plain_one() -> None:
    def answer(method: str, _path: str, headers: dict[str, str]) -> Answer:
        if method == "PUT":
            return (501, XML, xml_error("NotImplemented")) if "if-none-match" in headers else (200, XML, b"")
        return 404, XML, xml_error("NoSuchKey")

    with broken_s3(answer) as server:
        store = a_store(server.url)
        assert store.put_if_absent("k", b"x") == b"x"
        assert [method for method, _, _ in server.requests[:3]] == ["GET", "PUT", "PUT"]


def test_a_conditional_write_that_is_refused_for_another_reason_says_so() -> None:
    def answer(method: str, _path: str, _headers: dict[str, str]) -> Answer:
        return (403, XML, xml_error("AccessDenied")) if method == "PUT" else (404, XML, xml_error("NoSuchKey"))

    with broken_s3(answer) as server, pytest.raises(StoreError, match="refused the access key"):
        a_store(server.url).put_if_absent("k", b"x")
