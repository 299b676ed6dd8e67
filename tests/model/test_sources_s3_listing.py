"""Keys of an S3 prefix as files: what a disk can't hold safely is a problem and never a path."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelctl.errors import InputError
from modelctl.model import s3_listing
from modelctl.model.s3_client import Listed
from modelctl.model.s3_listing import S3Listing, S3Prefix, plan, unsafe

WHERE = S3Prefix(bucket="models", prefix="tiny/1/")


def planned(*keys: str, size: int = 3) -> S3Listing:
    return plan([Listed(key=f"tiny/1/{key}", size_bytes=size, etag=key) for key in keys], WHERE)


@pytest.mark.parametrize(
    ("text", "bucket", "prefix"),
    [
        ("s3://models/tiny/1.0.0", "models", "tiny/1.0.0/"),
        ("s3://models/tiny/1.0.0/", "models", "tiny/1.0.0/"),
        ("s3://models", "models", ""),
        ("s3://models/", "models", ""),
        ("s3://models/größe/a b", "models", "größe/a b/"),
    ],
)
def test_a_prefix_is_a_folder(text: str, bucket: str, prefix: str) -> None:
    assert S3Prefix.parse(text) == S3Prefix(bucket=bucket, prefix=prefix)


@pytest.mark.parametrize(
    "text", ["s3://", "s3:///x", "s3://B/x", "s3://models/../x", "s3://models/a//b", "s3://models/a\nb", "s3://m/x"]
)
def test_a_text_that_is_no_prefix(text: str) -> None:
    with pytest.raises(InputError, match="is no S3 prefix") as caught:
        S3Prefix.parse(text)
    assert "s3://BUCKET/PREFIX" in str(caught.value.remedy)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("../evil", "leads out of the folder"),
        ("a/../../evil", "leads out of the folder"),
        ("..", "leads out of the folder"),
        ("/etc/passwd", "is absolute"),
        ("a//b", "empty part"),
        ("./config.json", "empty part"),
        ("a/", "empty part"),
        ("a\nb", "control characters"),
        ("a\x7f", "control characters"),
        ("\ud800", "control characters"),
        ("..\\evil", "leads elsewhere"),
        ("c:evil", "leads elsewhere"),
        ("x" * 256, "more than 255 bytes"),
    ],
)
def test_a_key_that_is_no_path_is_a_problem_and_never_fetched(key: str, words: str) -> None:
    listing = planned(key, "config.json")
    assert list(listing.files) == ["config.json"]
    assert [problem.kind for problem in listing.problems] == ["unsafe-key"]
    assert words in listing.problems[0].detail
    assert listing.problems[0].path.isprintable()


def test_an_object_that_is_also_a_folder_is_a_problem() -> None:
    listing = planned("a", "a/b/c", "d")
    assert list(listing.files) == ["a/b/c", "d"]
    assert [problem.path for problem in listing.problems] == ["a"]


def test_folder_markers_hold_nothing_and_are_counted() -> None:
    listing = plan([Listed(key=key, size_bytes=0) for key in ("tiny/1/", "tiny/1/sub/", "tiny/1/empty.txt")], WHERE)
    assert (list(listing.files), listing.markers, listing.problems) == (["empty.txt"], 2, ())


def test_more_objects_than_a_model_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_listing, "MAX_FILES", 2)
    with pytest.raises(InputError, match="more than 2 objects"):
        planned("a", "b", "c")


def test_the_state_moves_with_every_object() -> None:
    states = {
        planned("a", "b").state,
        planned("a").state,
        planned("a", "b", size=4).state,
        planned("a", "b", "../c").state,
        plan([Listed(key="tiny/1/a", size_bytes=3, etag="other"), Listed(key="tiny/1/b", size_bytes=3)], WHERE).state,
    }
    assert len(states) == 5
    assert planned("a", "b").state == planned("b", "a").state


@given(st.lists(st.text(alphabet=st.sampled_from("ab./\\:\0\n\ud800é"), max_size=8), unique=True, max_size=6))
def test_whatever_the_keys_every_object_is_a_file_a_marker_or_a_problem(keys: list[str]) -> None:
    listing = planned(*keys, size=1)
    assert len(listing.files) + len(listing.problems) + listing.markers == len(keys)
    for path in listing.files:
        parts = path.split("/")
        assert unsafe(path) is None
        assert not {"", ".", ".."} & set(parts)
        assert not any("/".join(parts[:depth]) in listing.files for depth in range(1, len(parts)))
