"""Records read back as they were written, in the order of their versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelctl.errors import InputError
from modelctl.model.release import Metadata
from modelctl.registry.manifest import Served
from modelctl.registry.records import (
    EvidenceRecord,
    PolicyRecord,
    Record,
    SourceRecord,
    list_records,
    load_record,
    proposed_releases,
)
from modelctl.registry.versions import version_order
from tests.registry.test_verify import a_tree
from tests.support.publication import RELEASE_FILE
from tests.support.reports import DIGEST


def write(root: Path, version: str, *, folder: str | None = None) -> Record:
    record = Record(
        metadata=Metadata(name="tiny", version=version),
        published_at="2026-01-02T03:04:05Z",
        source=SourceRecord(description="folder: ./a # b", tree_digest=DIGEST, size_bytes=5),
        policy=PolicyRecord(name="demo", digest=DIGEST),
        evidence=EvidenceRecord(report_sha256="ab" * 32, attestation_sha256="cd" * 32, key_id="SHA256:" + "A" * 43),
        served=Served.of(a_tree(), bucket="models", name="tiny", version=version),
    )
    path = root / "registry" / "tiny" / (folder or version) / "record.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(record.to_yaml(), encoding="utf-8")
    return record


def test_a_record_reads_back_as_it_was_written(tmp_path: Path) -> None:
    record = write(tmp_path, "1.0.0")
    assert load_record(tmp_path, "tiny", "1.0.0") == record
    assert record.id == "tiny@1.0.0"
    text = record.to_yaml()
    assert text.startswith("apiVersion: modelctl.dev/v1\nkind: ReleaseRecord\n")
    assert f"  tree_digest: {a_tree().digest}\n" in text


def test_records_come_in_the_order_of_their_versions(tmp_path: Path) -> None:
    versions = [
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0",
        "1.2.0",
        "1.10.0",
    ]
    for version in reversed(versions):
        write(tmp_path, version)
    assert [record.metadata.version for record in list_records(tmp_path)] == versions
    assert sorted(versions, key=version_order) == versions
    assert list_records(tmp_path / "empty") == ()


def test_what_is_not_published_says_how_to(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not published") as caught:
        load_record(tmp_path, "tiny", "1.0.0")
    assert "modelctl publish tiny@1.0.0" in str(caught.value.remedy)


def test_a_record_in_the_folder_of_another_release_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "1.0.0", folder="2.0.0")
    with pytest.raises(InputError, match=r"is the record of tiny@1\.0\.0"):
        list_records(tmp_path)


def test_a_record_that_was_edited_is_an_error(tmp_path: Path) -> None:
    record = write(tmp_path, "1.0.0")
    path = tmp_path / "registry" / "tiny" / "1.0.0" / "record.yaml"
    path.write_text(record.to_yaml().replace("size_bytes: 3", "size_bytes: 4"))
    with pytest.raises(InputError, match="the files listed make"):
        load_record(tmp_path, "tiny", "1.0.0")


def test_a_release_without_a_record_is_proposed(tmp_path: Path) -> None:
    write(tmp_path, "1.0.0")
    for version in ("1.0.0", "1.10.0", "1.9.0"):
        folder = tmp_path / "registry" / "tiny" / version
        folder.mkdir(exist_ok=True)
        (folder / "release.yaml").write_text(RELEASE_FILE.format(name="tiny", version=version))
    assert [metadata.version for metadata in proposed_releases(tmp_path)] == ["1.9.0", "1.10.0"]
