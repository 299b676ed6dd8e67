"""The isolated child of the tokenizer check: files, special tokens, templates, behaviour; one report as the answer.

It is started by `worker.call` with `-I` and without network. Whatever hangs, eats memory or crashes does so in a fork
of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from modelctl.documents import Document
from modelctl.model.strict_json import Json
from modelctl.tokenization.bounded import Bounds, limit_address_space
from modelctl.tokenization.consistency import check_bytes, check_clashes, check_range
from modelctl.tokenization.conversations import judge
from modelctl.tokenization.copies import check_copies, check_ranks, check_word_list, is_ranks
from modelctl.tokenization.corpus import corpus
from modelctl.tokenization.declared import check_declared
from modelctl.tokenization.embedding import Ceiling, find_ceiling
from modelctl.tokenization.lengths import check_lengths
from modelctl.tokenization.reading import MAX_FILE_BYTES, MalformedError, text
from modelctl.tokenization.report import Ledger, Report
from modelctl.tokenization.sentencepiece_form import NAMES as SENTENCEPIECE_NAMES
from modelctl.tokenization.sentencepiece_form import check_sentencepiece
from modelctl.tokenization.special import (
    SpecialTokens,
    check_agreement,
    check_end,
    check_ids,
    check_known,
)
from modelctl.tokenization.special import check_places as check_special_places
from modelctl.tokenization.tekken import NAME as TEKKEN
from modelctl.tokenization.tekken import check_tekken
from modelctl.tokenization.templates import DEFAULT, Template, check_places, find_templates
from modelctl.tokenization.tokenizer_files import model_config, read_documents, unreadable, vocabulary_and_special
from modelctl.tokenization.trial import Trial, try_tokenizer
from modelctl.tokenization.vocabulary import Vocabulary
from modelctl.worker import serve

_WRITERS = ("ForCausalLM", "LMHeadModel")
"""How architectures end whose text has no end but a token."""
_TEMPLATES_OF_CHAT = (DEFAULT, "tool_use")
"""Names of the templates that chat endpoints use; others need what only their caller has."""


class Request(Document):
    """What the child is asked. Paths in `files` are relative to `root`, all files of the tree."""

    root: str
    files: tuple[str, ...]
    agreeing_roles: tuple[str, ...]
    max_lossy_texts: int | None
    max_differing_texts: int
    more_bytes: int
    baseline: str | None
    """The folder of the model that this one was made from."""
    chat_template_required: bool
    template_time_limit_s: float
    template_memory_limit_bytes: int
    load_time_limit_s: float
    load_memory_limit_bytes: int


def examine(request: Request) -> Report:
    """Everything in order. Raises only for faults of its own."""
    ledger = Ledger()
    root = Path(request.root)
    limit_address_space(request.load_memory_limit_bytes)
    ledger.texts_total = sum(len(group) for group in corpus().values())
    documents = read_documents(root, request.files, ledger)
    config = model_config(documents.get("config.json"), ledger)
    weights = [path for path in request.files if path.endswith(".safetensors") and "/" not in path]
    ceiling = find_ceiling(root, weights, config, ledger)
    vocabulary, special = vocabulary_and_special(documents, config, ledger)
    _judge_vocabulary(vocabulary, special, ceiling, request, ledger)
    settings = documents.get("tokenizer_config.json")
    check_declared(settings, vocabulary, ledger)
    check_lengths(settings, vocabulary.truncation, config, ledger)
    check_special_places(special, ledger)
    writes = config is not None and any(name.endswith(_WRITERS) for name in config.architectures)
    if all(problem.rule != "unreadable" for problem in ledger.problems):
        check_end(special, writes=writes, ledger=ledger)
    _judge_copies(root, request.files, documents, vocabulary, ledger)
    template = _judge_templates(root, request, special, vocabulary, ledger)
    bounds = Bounds(time_limit_s=request.load_time_limit_s, memory_limit_bytes=request.load_memory_limit_bytes)
    if "tokenizer.json" in documents:
        limit = request.max_differing_texts
        for name in SENTENCEPIECE_NAMES:
            if name in request.files and not is_ranks(root / name):
                ledger.files_total += 1
                check_sentencepiece(root, name, vocabulary, bounds, max_differing_texts=limit, ledger=ledger)
        if TEKKEN in request.files:
            ledger.files_total += 1
            check_tekken(root, vocabulary, bounds, max_differing_texts=limit, ledger=ledger)
    if all(problem.rule != "unreadable" for problem in ledger.problems):
        trial = Trial(
            root=root,
            files=request.files,
            settings=documents.get("tokenizer_config.json", {}),
            vocabulary=vocabulary,
            special=special,
            rows=ceiling.rows,
            template=template,
            max_lossy_texts=request.max_lossy_texts,
            max_differing_texts=request.max_differing_texts,
            more_bytes=request.more_bytes,
            baseline=Path(request.baseline) if request.baseline is not None else None,
            exactly=config is not None and config.quantization is not None,
        )
        try_tokenizer(trial, bounds, ledger)
    return ledger.report()


def _judge_vocabulary(
    vocabulary: Vocabulary, special: SpecialTokens, ceiling: Ceiling, request: Request, ledger: Ledger
) -> None:
    ledger.figure("vocabulary", len(vocabulary.ids), model=vocabulary.model)
    check_clashes(vocabulary, ledger)
    check_range(vocabulary, ceiling.rows, ceiling.origin, ledger)
    if vocabulary.pieces:
        check_bytes(vocabulary, ledger)
        check_known(special, vocabulary, ledger)
        check_ids(special, vocabulary, ceiling.rows, ledger)
    check_agreement(special, vocabulary, request.agreeing_roles, ledger)


def _judge_copies(
    root: Path,
    files: Sequence[str],
    documents: Mapping[str, Mapping[str, Json]],
    vocabulary: Vocabulary,
    ledger: Ledger,
) -> None:
    if "tokenizer.json" not in documents:
        return
    try:
        if "vocab.json" in documents:
            merges = text(root / "merges.txt", max_bytes=MAX_FILE_BYTES) if "merges.txt" in files else None
            check_copies(vocabulary, documents["vocab.json"], merges, documents["tokenizer.json"], ledger)
        for name in files:
            if name == "vocab.txt":
                check_word_list(root / name, vocabulary, ledger)
            elif "/" not in name and name.endswith((".model", ".tiktoken")) and is_ranks(root / name):
                check_ranks(root / name, vocabulary, ledger)
    except MalformedError as error:
        unreadable(str(error), str(error).partition(":")[0], ledger)


def _judge_templates(
    root: Path, request: Request, special: SpecialTokens, vocabulary: Vocabulary, ledger: Ledger
) -> Template | None:
    """Judge every template; the one that chat endpoints use is returned when nothing speaks against any."""
    before = len(ledger.problems)
    templates = find_templates(root, request.files, ledger)
    check_places(templates, ledger)
    bounds = Bounds(
        time_limit_s=request.template_time_limit_s, memory_limit_bytes=request.template_memory_limit_bytes, waits=6
    )
    used: Template | None = None
    for template in templates:
        is_used = template.name in _TEMPLATES_OF_CHAT and template.folder == ""
        judge(template, special, vocabulary, bounds, render_it=is_used, ledger=ledger)
        if is_used and template.name == DEFAULT:
            used = used or template
    ledger.tools["jinja2"] = version("jinja2")
    if used is None:
        without = "no chat template: chat requests fail, or each engine invents a format of its own"
        if request.chat_template_required:
            remedy = "publish chat_template.jinja, or serve completions only and say so in the policy"
            ledger.problem("template-missing", without, remedy=remedy)
        else:
            ledger.warnings.append(without)
    return used if len(ledger.problems) == before else None


def _answer(request: Any, _progress: Callable[..., None]) -> object:
    return examine(Request.model_validate(request)).model_dump(mode="json")


if __name__ == "__main__":
    serve(_answer)
