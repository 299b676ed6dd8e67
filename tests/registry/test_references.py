"""What a person writes for a release, and which one it is."""

from __future__ import annotations

import pytest

from modelctl.errors import InputError
from modelctl.registry.references import Known, choose, parse_reference, published_in
from modelctl.registry.store import ObjectStore
from tests.support.bucket import place

DIGEST = "sha256:" + "ab" * 32
KNOWN = [
    Known(name="tiny", version="1.9.0", digest=DIGEST),
    Known(name="tiny", version="1.10.0", digest="sha256:" + "cd" * 32),
    Known(name="tiny", version="2.0.0-rc.1", digest=None),
    Known(name="early", version="0.1.0-beta", digest=None),
]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("tiny@1.9.0", "tiny@1.9.0"),
        ("tiny@latest", "tiny@1.10.0"),
        ("tiny@2.0.0-rc.1", "tiny@2.0.0-rc.1"),
        (f"tiny@{DIGEST}", "tiny@1.9.0"),
        (DIGEST, "tiny@1.9.0"),
    ],
)
def test_the_release_that_is_meant(text: str, wanted: str) -> None:
    assert choose(parse_reference(text), KNOWN, where="here").id == wanted


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tiny@3.0.0", "tiny@3.0.0 is not published in here"),
        ("tinny@latest", "no release of tinny is published"),
        ("early@latest", "only pre-releases"),
        ("sha256:" + "00" * 32, "is not published in here"),
    ],
)
def test_what_is_not_there_is_said_with_what_is(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        choose(parse_reference(text), KNOWN, where="here")
    assert caught.value.remedy


def test_channels_are_read() -> None:
    found = parse_reference("tiny@canary:prod-eu")
    assert (found.name, found.channel, found.environment) == ("tiny", "canary", "prod-eu")


@pytest.mark.parametrize("text", ["tiny", "tiny@", "tiny@newest", "@1.0.0", "tiny@stable:", "sha256:ab", "tiny@1.0"])
def test_what_is_no_reference(text: str) -> None:
    with pytest.raises(InputError, match="is not NAME@VERSION"):
        parse_reference(text)


@pytest.mark.services
def test_a_bucket_knows_what_it_holds(store: ObjectStore) -> None:
    first = place(store, {"w": b"1"})
    place(store, {"w": b"2"}, version="1.2.0")
    latest = parse_reference("tiny@latest")
    assert choose(latest, published_in(store, latest), where="the bucket").version == "1.2.0"
    by_digest = parse_reference(first.served.tree_digest)
    assert choose(by_digest, published_in(store, by_digest), where="the bucket").version == "1.0.0"
