"""Two models' answers side by side, document by document: the same documents and the same prompts, or no comparison."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from modelctl.accuracy.answers import Document
from modelctl.accuracy.evaluate import Results
from modelctl.errors import CannotDecideError


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One document with both answers."""

    baseline: Document
    candidate: Document

    @property
    def lost(self) -> bool:
        """Only the baseline got it right."""
        return self.baseline.correct and not self.candidate.correct

    @property
    def gained(self) -> bool:
        """Only the candidate got it right."""
        return self.candidate.correct and not self.baseline.correct


def pair(baseline: Results, candidate: Results) -> tuple[Pair, ...]:
    """The documents of both, joined. Raises `CannotDecideError` unless both answered the same prompts of the same
    documents."""
    if {document_key(document) for document in baseline.documents} != {
        document_key(document) for document in candidate.documents
    }:
        raise CannotDecideError(
            "the two models were not asked the same questions (document, prompt or target hashes differ)",
            remedy="give both the same tokenizer files and tasks; delete the cache folder and run again if that is so",
        )
    answers = {document_key(document): document for document in candidate.documents}
    return tuple(Pair(baseline=document, candidate=answers[document_key(document)]) for document in baseline.documents)


def document_key(document: Document) -> tuple[str, int, str, str, str]:
    """What makes two answers answers to the same prompt."""
    return document.task, document.doc_id, document.doc_hash, document.prompt_hash, document.target_hash


def by_subject(pairs: Sequence[Pair]) -> dict[str, tuple[Pair, ...]]:
    """The pairs of each subject, by name."""
    found: dict[str, list[Pair]] = {}
    for item in pairs:
        found.setdefault(item.baseline.subject, []).append(item)
    return {subject: tuple(found[subject]) for subject in sorted(found)}


def evidence_lines(pairs: Sequence[Pair]) -> bytes:
    """One JSON object a document: where it is from, its hashes, and what each model chose."""
    rows = []
    for item in pairs:
        row = asdict(item.baseline)
        for name in ("chosen", "correct"):
            row[f"baseline_{name}"] = row.pop(name)
            row[f"candidate_{name}"] = getattr(item.candidate, name)
        rows.append(json.dumps(row, sort_keys=True, ensure_ascii=False))
    return ("\n".join(rows) + "\n").encode()
