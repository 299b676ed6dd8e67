"""Lists of served files agree with themselves, and no path leaves the folder."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modelctl.errors import RefusedError
from modelctl.model.release import Metadata
from modelctl.registry.manifest import Manifest, Served, as_tree, manifest_key
from tests.registry.test_verify import a_tree


def a_manifest(**changes: Any) -> bytes:
    served = Served.of(a_tree(), bucket="models", name="tiny", version="1.0.0")
    manifest = Manifest(
        release=Metadata(name="tiny", version="1.0.0"), served=served, published_at="2026-01-02T03:04:05Z"
    )
    body = json.loads(manifest.to_json())
    body["served"].update(changes)
    return json.dumps(body).encode()


def test_it_survives_the_bucket() -> None:
    manifest = Manifest.from_json(a_manifest(), name="tiny", version="1.0.0")
    assert Manifest.from_json(manifest.to_json(), name="tiny", version="1.0.0") == manifest
    assert manifest.served.tree.digest == a_tree().digest
    assert manifest.served.uri == "s3://models/tiny/1.0.0"
    assert manifest_key("tiny", "1.0.0") == ".modelctl/releases/tiny/1.0.0.json"


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a//b", "a/./b", "a/..", "", "a\nb", "a\0b", "a/"])
def test_a_path_that_leaves_the_folder_is_refused(path: str) -> None:
    files = [{"path": path, "size_bytes": 1, "sha256": "ab" * 32}]
    with pytest.raises(RefusedError, match="no plain path"):
        Manifest.from_json(a_manifest(files=files), name="tiny", version="1.0.0")


def test_a_list_that_contradicts_itself_is_refused() -> None:
    good = Served.of(a_tree(), bucket="models", name="tiny", version="1.0.0")
    rows = [row.model_dump() for row in good.files]
    doubled = (*good.files, good.files[0])
    for changes, reason in (
        ({"size_bytes": good.size_bytes + 1}, "the files listed make"),
        ({"tree_digest": "sha256:" + "00" * 32}, "the files listed make"),
        ({"files": rows[1:]}, "the files listed make"),
        ({"files": [*rows, rows[0]], "tree_digest": as_tree(doubled).digest}, "lists a path twice"),
        ({"files": []}, "served.files"),
        ({"more": 1}, "served.more"),
    ):
        with pytest.raises(RefusedError, match=reason) as caught:
            Manifest.from_json(a_manifest(**changes), name="tiny", version="1.0.0")
        assert "past modelctl" in str(caught.value.remedy)


def test_the_manifest_of_another_release_or_nonsense_is_refused() -> None:
    with pytest.raises(RefusedError, match=r"is the manifest of tiny@1\.0\.0"):
        Manifest.from_json(a_manifest(), name="tiny", version="2.0.0")
    for content in (b"", b"[]", b"\xff", b"{}"):
        with pytest.raises(RefusedError, match="not a manifest"):
            Manifest.from_json(content, name="tiny", version="1.0.0")
