"""What a list shows is what the records say, however they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelctl.errors import InputError
from modelctl.registry.records import load_record
from modelctl.registry.summary import Summary, published, summaries
from tests.registry.test_records import write
from tests.support.history import Registry, a_registry
from tests.support.registries import many


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    registry = a_registry(tmp_path / "registry")
    registry.propose(version="1.0.0")
    registry.publish(version="1.0.0")
    registry.propose(version="1.10.0")
    registry.publish(version="1.10.0", content="other")
    registry.propose(version="2.0.0")
    return registry


def agrees(root: Path, item: Summary) -> bool:
    record = load_record(root, item.name, item.version)
    served = record.served
    return (item.published_at, item.policy, item.key_id, item.tree_digest, item.size_bytes, item.uri) == (
        record.published_at, record.policy.name, record.evidence.key_id, served.tree_digest, served.size_bytes,
        served.uri,
    )  # fmt: skip


def test_a_summary_says_what_the_whole_record_says(registry: Registry) -> None:
    found = summaries(registry.root)
    assert [(item.id, item.state) for item in found] == [
        ("tiny@1.0.0", "published"),
        ("tiny@1.10.0", "published"),
        ("tiny@2.0.0", "proposed"),
    ]
    assert all(agrees(registry.root, item) for item in published(registry.root))
    assert found[0].admitted_at == "2026-01-02T03:04:06Z"
    assert (found[2].admitted_at, found[2].size_bytes) == (None, None)
    assert summaries(registry.root, "other") == ()
    assert summaries(registry.root / "nowhere") == ()


def test_a_record_that_is_written_in_another_way_is_parsed(tmp_path: Path) -> None:
    for version, change in (
        ("1.0.0", ("  name: tiny", "  name: 'tiny'")),
        ("1.1.0", ("policy:\n", "# a note\npolicy:\n")),
    ):
        write(tmp_path, version)
        path = tmp_path / "registry" / "tiny" / version / "record.yaml"
        text = path.read_text()
        assert change[0] in text
        path.write_text(text.replace(*change, 1))
    assert all(agrees(tmp_path, item) for item in summaries(tmp_path))
    path.write_text("{}\n")
    with pytest.raises(InputError, match=r"1\.1\.0/record\.yaml"):
        summaries(tmp_path)


def test_the_record_of_another_release_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "1.0.0", folder="3.0.0")
    with pytest.raises(InputError, match=r"is the record of tiny@1\.0\.0"):
        summaries(tmp_path)


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ("spec:\n  source: {folder: m}\n  license: apache-2.0\n", "apache-2.0"),
        ("spec: {source: {folder: m}, license: mit}\n", "mit"),
        ("spec:\n  license: 'other (see model card)'\n  source: {folder: m}\n", "other (see model card)"),
        ("# the license: is below\nspec:\n  license: mit\n  source: {folder: m}\n", "mit"),
        ("spec: {source: {folder: m}}\n", None),
    ],
)
def test_the_licence_of_a_release_file(tmp_path: Path, spec: str, wanted: str | None) -> None:
    write(tmp_path, "1.0.0")
    (tmp_path / "registry" / "tiny" / "1.0.0" / "release.yaml").write_text(
        f"apiVersion: modelctl.dev/v1\nkind: ModelRelease\nmetadata: {{name: tiny, version: 1.0.0}}\n{spec}"
    )
    assert [item.license for item in summaries(tmp_path)] == [wanted]


def test_many_releases_are_read_without_parsing_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = many(tmp_path / "registry", 40)

    def never(*_: object) -> None:
        raise AssertionError("a record was parsed")

    monkeypatch.setattr("modelctl.documents.parse_yaml", never)
    assert len(summaries(registry.root)) == 40
