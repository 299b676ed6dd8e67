"""How often a server is asked about each of many small files: once, whatever the command."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from modelctl.registry import contents
from modelctl.registry.pull import pull
from modelctl.registry.store import ObjectStore
from modelctl.registry.verify_bucket import verify_bucket
from modelctl.services.process import Running
from tests.registry.conftest import a_store
from tests.support.bucket import place
from tests.support.publication import Proposal, propose
from tests.support.s3_proxy import Proxy, s3_proxy

COUNT = 20
HINTED = 4
FILES = {f"data/{number:02}": bytes([number + 1]) * (number + 1) for number in range(COUNT)}

pytestmark = pytest.mark.services


@pytest.fixture
def proxy(rclone: Running) -> Iterator[Proxy]:
    with s3_proxy(rclone.address) as found:
        yield found


@pytest.fixture
def store(proxy: Proxy) -> ObjectStore:
    found = a_store(proxy.url)
    found.ensure_bucket()
    return found


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Proposal:
    """A release of many files, each larger than the one before; so many of them have hints."""
    monkeypatch.setattr(contents, "HINTED", HINTED)
    return propose(tmp_path / "registry", files=FILES)


def of_files(requests: Sequence[str], version: str = "1.0.0") -> Counter[str]:
    """How often each method was used on each of a release's files; listings are of no file."""
    plain = [request.partition("?")[0] for request in requests]
    return Counter(
        request.replace(request.split("/")[1], "bucket", 1) for request in plain if f"/{version}/data" in request
    )


def each(method: str, version: str = "1.0.0") -> Counter[str]:
    return Counter({f"{method} /bucket/tiny/{version}/data/{number:02}": 1 for number in range(COUNT)})


def test_a_publication_sends_each_file_by_one_request(many: Proposal, store: ObjectStore, proxy: Proxy) -> None:
    many.publish(store)
    assert of_files(proxy.requests) == each("PUT")
    hints = [request for request in proxy.requests if "/.modelctl/contents/" in request]
    assert Counter(request.split()[0] for request in hints) == {"GET": 2 * HINTED, "PUT": HINTED}
    largest = {many.tree().by_path[f"data/{number:02}"].sha256 for number in range(COUNT - HINTED, COUNT)}
    assert {key.rpartition("/")[2] for key in store.sizes(contents.CONTENTS)} == largest


def test_a_second_one_looks_at_each_file_once(many: Proposal, store: ObjectStore, proxy: Proxy) -> None:
    many.publish(store)
    proxy.requests.clear()
    assert {step.action for step in many.publish(store).steps} == {"keep"}
    looked = of_files(proxy.requests) - each("HEAD")
    assert looked.total() == HINTED  # what the hints name
    assert not of_files(proxy.requests) - looked - each("HEAD")


def test_another_version_copies_the_files_that_have_no_hint_too(
    many: Proposal, store: ObjectStore, proxy: Proxy
) -> None:
    many.publish(store)
    (many.root / "model" / "data" / "00").write_bytes(b"another")
    done = many.next_version("1.1.0").publish(store)
    assert [step.entry.path for step in done.steps if step.action != "copy"] == ["data/00"]
    assert of_files(proxy.requests, "1.1.0") == each("PUT", "1.1.0") + each("HEAD", "1.1.0") - Counter(
        ["HEAD /bucket/tiny/1.1.0/data/00"]
    )


def test_a_download_asks_for_each_file_once(store: ObjectStore, proxy: Proxy, tmp_path: Path) -> None:
    served = place(store, FILES).served
    proxy.requests.clear()
    pull(store, served, tmp_path / "pulled")
    assert of_files(proxy.requests) == each("GET")
    proxy.requests.clear()
    pull(store, served, tmp_path / "pulled")
    assert not proxy.requests


@pytest.mark.parametrize(("full", "method"), [(False, "HEAD"), (True, "GET")])
def test_a_verification_asks_for_each_file_once(store: ObjectStore, proxy: Proxy, full: bool, method: str) -> None:
    served = place(store, FILES).served
    proxy.requests.clear()
    found = verify_bucket(store, served, full=full)
    assert found.whole
    assert not found.unannounced
    assert len(found.read) == (COUNT if full else 0)
    assert of_files(proxy.requests) == each(method)
