"""Paths and calibration text in a quantised model are found, wherever they hide."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from modelctl.accuracy.leaks import leaks
from tests.support.models import raw_safetensors

TEXT = "The ferry left the harbour a little after six, while the lamps along the quay were still burning."
FOLDER = Path("/srv/models/original")


def weights(folder: Path, *, metadata: dict[str, str], data: bytes) -> Path:
    header = {"__metadata__": metadata, "a": {"dtype": "U8", "shape": [len(data)], "data_offsets": [0, len(data)]}}
    path = folder / "model.safetensors"
    path.write_bytes(raw_safetensors(json.dumps(header).encode(), data))
    return path


def found(path: Path) -> tuple[str, ...]:
    return leaks([path], paths=[FOLDER], texts=[TEXT])


@pytest.mark.parametrize(
    ("metadata", "data", "what"),
    [
        ({"made_from": str(FOLDER)}, b"\0" * 8, "the local path /srv/models/original"),
        ({}, b"\0" + str(FOLDER).encode() + b"\0", "the local path /srv/models/original"),
        ({"sample": TEXT[20:70]}, b"\0" * 8, "calibration text"),
        ({}, b"\0" + TEXT.encode() + b"\0", "calibration text"),
    ],
)
def test_weights_are_searched_in_header_and_data(
    tmp_path: Path, metadata: dict[str, str], data: bytes, what: str
) -> None:
    assert found(weights(tmp_path, metadata=metadata, data=data)) == (f"model.safetensors: {what}",)


def test_json_is_searched_as_text_however_it_is_escaped(tmp_path: Path) -> None:
    chinese = "老城区的图书馆要搬家了。通知贴出来的那天，很多读者都去看了一眼，有人拍照，有人抄下新地址。"
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"meta": [{"note": chinese}]}, ensure_ascii=True))
    assert leaks([path], paths=[], texts=[chinese]) == ("config.json: calibration text",)


def test_clean_files_and_short_paths_are_no_leaks(tmp_path: Path) -> None:
    path = weights(tmp_path, metadata={"format": "pt", "root": "/root"}, data=b"The ferry left")
    assert leaks([path], paths=[FOLDER, Path("/root")], texts=[TEXT]) == ()
