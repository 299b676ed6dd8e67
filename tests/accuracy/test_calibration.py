"""The text to calibrate with: where it may come from, and what is said when it is too little."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from modelctl.accuracy.calibration import from_file, resolve, shipped, shortcomings
from modelctl.accuracy.calibration_worker import fetch
from modelctl.accuracy.composed import CHARACTERS, composed_text
from modelctl.errors import InputError
from modelctl.model.release import Calibration
from tests.support.progress import Notes


def named(calibration: Calibration | None, root: Path) -> str:
    return resolve(
        calibration, root=root, cache=root / "cache", progress=Notes(), time_limit_s=60, memory_limit_bytes=1 << 30
    ).origin


def test_the_default_is_the_shipped_sample_chinese_first(tmp_path: Path) -> None:
    text = shipped()
    assert named(None, tmp_path) == text.origin == "shipped"
    assert "\u4e00" <= text.parts[0][0] <= "\u9fff"
    assert sum("\u4e00" <= letter <= "\u9fff" for letter in text.parts[0]) > 3500


def test_what_is_composed_is_long_varied_and_right() -> None:
    text = composed_text()
    assert len(text) >= CHARACTERS
    pieces = text.rstrip("\n").split("\n\n")
    assert len(set(pieces)) > 0.95 * len(pieces)
    sums = [line for line in text.splitlines() if line.startswith("答：")]
    assert len(sums) > 100
    for line in sums:
        product, difference = line.removeprefix("答：").split("，")[:2]
        for side in (product, difference):
            left, right = side.replace("×", "*").replace("−", "-").split(" = ")
            assert eval(left) == int(right), line
    for line in text.splitlines():
        if line.startswith('{"id"'):
            json.loads(line)


def test_a_file_is_plain_text_or_a_line_of_json_a_text(tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("eins\nzwei\n", encoding="utf-8")
    assert from_file(tmp_path / "plain.txt").parts == ("eins\nzwei\n",)
    (tmp_path / "rows.jsonl").write_text('{"text": "一"}\n"two"\n\n', encoding="utf-8")
    assert from_file(tmp_path / "rows.jsonl").parts == ("一\n\ntwo",)
    (tmp_path / "other.jsonl").write_text('{"body": "x"}\n', encoding="utf-8")
    assert from_file(tmp_path / "other.jsonl", column="body").parts == ("x",)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.jsonl", b'{"body": "x"}\n', "a.jsonl:1: no text under 'text'"),
        ("a.jsonl", b"{\n", "a.jsonl:1: no JSON"),
        ("a.txt", b"\xff\xfe", "not UTF-8"),
        ("a.txt", b" \n", "holds no text"),
        ("gone.txt", None, "No such file"),
    ],
)
def test_a_file_that_is_no_text_is_named(tmp_path: Path, name: str, content: bytes | None, words: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=words):
        from_file(tmp_path / name)


def test_a_release_names_a_file_of_its_repository_and_no_other(tmp_path: Path) -> None:
    root = tmp_path / "registry"
    root.mkdir()
    (root / "ours.txt").write_text("ours")
    (tmp_path / "theirs.txt").write_text("theirs")
    assert named(Calibration(file=Path("ours.txt")), root) == "file ours.txt"
    (root / "link.txt").symlink_to(tmp_path / "theirs.txt")
    for path in ("../theirs.txt", str(tmp_path / "theirs.txt"), "link.txt"):
        with pytest.raises(InputError, match="outside of the registry repository"):
            named(Calibration(file=Path(path)), root)


@pytest.mark.parametrize("fields", [{}, {"file": "a", "dataset": "o/n", "revision": "0" * 40}, {"dataset": "o/n"}])
def test_a_calibration_names_one_text_and_pins_it(fields: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        Calibration.model_validate(fields)


@pytest.mark.slow
def test_a_data_set_is_read_until_there_is_enough(tmp_path: Path) -> None:
    rows = [{"text": f"row {number} " + "x" * 90} for number in range(50)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    request = {"dataset": str(tmp_path), "revision": None, "subset": None, "split": "train", "column": "text"}
    text = fetch({**request, "characters": 300}, print)["text"]
    assert text.count("row ") == 4
    with pytest.raises(ValueError, match="no text under 'body'; a row has text"):
        fetch({**request, "column": "body", "characters": 300}, print)


def test_too_little_to_calibrate_with_is_said() -> None:
    assert shortcomings(samples=256, sample_tokens=512, text_tokens=131_072) == ()
    few, short, overlap = shortcomings(samples=16, sample_tokens=128, text_tokens=2000)
    assert few.startswith("calibrated with 16 samples")
    assert short.startswith("calibrated with samples of 128 tokens")
    assert overlap.startswith("the calibration text holds 2000 tokens, fewer than the 2048 asked for")
