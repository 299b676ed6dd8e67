"""Documents that people write are refused with the file, the key, what was found and what is wanted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from modelctl.documents import MAX_DOCUMENT_BYTES, load_document, parse_yaml
from modelctl.errors import InputError
from modelctl.model.release import Release, load_release

GOOD = """
apiVersion: modelctl.dev/v1
kind: ModelRelease
metadata: {name: tiny, version: 1.0.0}
spec:
  source: {folder: models/tiny}
"""


def release_file(folder: Path, text: str) -> Path:
    path = folder / "release.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def message_of(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        load_document(path, Release)
    assert str(path) in caught.value.message
    return caught.value.message


def test_a_good_release_is_read(tmp_path: Path) -> None:
    release = load_release(release_file(tmp_path, GOOD))
    assert release.id == "tiny@1.0.0"
    assert release.spec.quantization is None


def test_windows_line_endings_and_a_byte_order_mark_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "release.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert load_release(path).metadata.name == "tiny"


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (("folder: models/tiny", "foldr: models/tiny"), ["unknown key 'spec.source.foldr'", "did you mean 'folder'"]),
        (("version: 1.0.0", "version: '1.0'"), ["metadata.version", "'1.0'"]),
        (("kind: ModelRelease", "kind: Model"), ["kind", "'Model'"]),
        (("apiVersion: modelctl.dev/v1\n", ""), ["key 'apiVersion' is missing"]),
        (("kind: ModelRelease", "kind: ModelRelease\nkind: ModelRelease"), ["duplicate key"]),
        (("{folder: models/tiny}", "{hub: org/name}"), ["needs 'revision'"]),
        (("{folder: models/tiny}", "{hub: org/name, folder: x}"), ["exactly one"]),
        (("{folder: models/tiny}", "[unclosed"), ["release.yaml:"]),
        (
            ("  source:", "  quantization: {exclude: ['(']}\n  source:"),
            ["exclude", "regular expression"],
        ),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, edit: tuple[str, str], words: list[str]) -> None:
    message = message_of(release_file(tmp_path, GOOD.replace(*edit)))
    for word in words:
        assert word in message


def test_an_empty_file_a_list_and_a_binary_are_refused(tmp_path: Path) -> None:
    assert "empty file" in message_of(release_file(tmp_path, ""))
    assert "a list" in message_of(release_file(tmp_path, "- a\n- b\n"))
    path = tmp_path / "release.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    assert "not UTF-8 at byte 0" in message_of(path)


def test_a_missing_file_names_a_similar_one(tmp_path: Path) -> None:
    release_file(tmp_path, GOOD)
    with pytest.raises(InputError) as caught:
        load_document(tmp_path / "relaese.yaml", Release)
    assert caught.value.remedy is not None
    assert "release.yaml" in caught.value.remedy


def test_a_giant_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "release.yaml"
    with path.open("wb") as stream:
        stream.truncate(MAX_DOCUMENT_BYTES + 1)
    assert "larger than" in message_of(path)


def test_aliases_are_refused_since_merged_ones_multiply(tmp_path: Path) -> None:
    lines = ["a0: &a0 {x: 1}", *(f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}" for i in range(1, 9))]
    message = message_of(release_file(tmp_path, "\n".join(lines)))
    assert "release.yaml:2: an alias (*a0)" in message


@pytest.mark.parametrize("nested", ["- " * 40 + "x", "[\n" * 40 + "]" * 40, ('["]",\n' * 40) + "]" * 40])
def test_deep_nesting_is_refused_with_its_line(tmp_path: Path, nested: str) -> None:
    message = message_of(release_file(tmp_path, f"# a comment\n{nested}"))
    assert re.search(r"release\.yaml:\d+: nested more than 32 levels deep", message)


def test_a_long_text_is_not_parsed() -> None:
    with pytest.raises(InputError, match="it: larger than"):
        parse_yaml("a: b\n" * MAX_DOCUMENT_BYTES, origin="it")


def test_the_folder_must_agree_with_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "registry" / "tiny" / "2.0.0"
    folder.mkdir(parents=True)
    with pytest.raises(InputError, match=r"metadata\.version is '1\.0\.0', but the folder says '2\.0\.0'"):
        load_release(release_file(folder, GOOD))
