"""Answers that are kept while a run goes on, and what the child may say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modelctl.accuracy.answers import Kept
from modelctl.errors import CannotDecideError


def part(number: int, documents: int = 2) -> dict[str, Any]:
    rows = [
        {"task": "t", "doc_id": 10 * number + item, "subject": "s", "doc_hash": "d", "prompt_hash": "p",
         "target_hash": "t", "choices": 4, "target": 1, "chosen": 1, "correct": True}
        for item in range(documents)
    ]  # fmt: skip
    texts = [] if documents else [{"name": "english", "size_bytes": 10, "bits": 12.5}]
    return {"part": number, "documents": rows, "texts": texts}


def test_parts_are_found_again_up_to_the_first_broken_line(tmp_path: Path) -> None:
    path = tmp_path / "x.parts"
    kept = Kept(path)
    kept.hear({"advance": 3})
    kept.hear(part(0))
    kept.hear(part(1))
    with path.open("a") as stream:
        stream.write('{"part": 2, "docu')
    again = Kept(path)
    assert sorted(again.parts) == [0, 1]
    assert again.documents == 4
    again.hear(part(2, 0))
    assert sorted(Kept(path).parts) == [0, 1, 2], "the broken line was taken away"
    documents, texts = again.whole({"parts": 3, "documents": 4})
    assert [document.doc_id for document in documents] == [0, 1, 10, 11]
    assert [text.bits for text in texts] == [12.5]
    again.forget()
    assert not path.exists()


@pytest.mark.parametrize("answer", [{"parts": 2, "documents": 4}, {"parts": 1, "documents": 3}, None, []])
def test_a_result_that_does_not_account_for_every_document_is_no_result(tmp_path: Path, answer: object) -> None:
    kept = Kept(tmp_path / "x.parts")
    kept.hear(part(0))
    with pytest.raises(CannotDecideError, match="answered 2 documents and ended with") as caught:
        kept.whole(answer)
    assert caught.value.remedy is not None
    assert str(tmp_path / "x.parts") in caught.value.remedy


def test_a_malformed_part_and_no_documents_are_said(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "x.parts")
    with pytest.raises(CannotDecideError, match="malformed"):
        kept.hear({"part": 0, "documents": "all right", "texts": []})
    with pytest.raises(CannotDecideError, match="hold no documents"):
        kept.whole({"parts": 0, "documents": 0})
