"""Tries the tokenizer in a bounded fork, on a copy of its files that has no weights and no Python beside it."""

from __future__ import annotations

import shutil
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from modelctl.model.strict_json import Json
from modelctl.tokenization.baseline import compare_baseline
from modelctl.tokenization.behaviour import compare, compare_vocabularies
from modelctl.tokenization.bounded import Answered, Bounds, Crashed, Exceeded, run_bounded
from modelctl.tokenization.declared import check_known_class
from modelctl.tokenization.in_text import check_in_text
from modelctl.tokenization.padding import check_padding
from modelctl.tokenization.reading import MAX_FILE_BYTES, shown_plain
from modelctl.tokenization.rendering import SINGLE, render
from modelctl.tokenization.report import Ledger, shown
from modelctl.tokenization.round_trip import round_trips
from modelctl.tokenization.special import SpecialTokens
from modelctl.tokenization.templates import EXTRA_TEMPLATES, Template
from modelctl.tokenization.variants import CURE, Loaded, Variants, load
from modelctl.tokenization.vocabulary import Vocabulary

_STAGED_SUFFIXES = (".json", ".jinja", ".txt", ".model", ".tiktoken", ".bpe")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What is tried, and what may differ."""

    root: Path
    files: Sequence[str]
    settings: Mapping[str, Json]
    """tokenizer_config.json."""
    vocabulary: Vocabulary
    special: SpecialTokens
    rows: int | None
    """Of the embedding."""
    template: Template | None
    """The chat template, when nothing was found against it."""
    max_lossy_texts: int | None
    max_differing_texts: int
    more_bytes: int
    """Of text that is tried beside the corpus."""
    baseline: Path | None
    """The folder of the model that the release was made from."""
    exactly: bool
    """Whether the release is that model with other numbers."""


def try_tokenizer(trial: Trial, bounds: Bounds, ledger: Ledger) -> None:
    """Load the tokenizer and compare what it does.

    Running out of `bounds` is a doubt, since a slow machine may be why; a crash is a finding.
    """
    ledger.tools |= {name: version(name) for name in ("tokenizers", "transformers")}
    with tempfile.TemporaryDirectory(prefix="tokenizer-") as made:
        staged = Path(made)
        _stage(trial.root, trial.files, staged)

        def step() -> JsonValue:
            # "Not installed": nothing here needs torch, and importing it is more than half of the start-up time.
            cast("dict[str, object]", sys.modules)["torch"] = None
            seen = Ledger()
            has_file = "tokenizer.json" in trial.files
            variants = load(staged, has_file=has_file, asks_for_code="auto_map" in trial.settings, ledger=seen)
            if variants.encoders:
                try:
                    _try(trial, variants, seen)
                except Exception as error:
                    if not _is_the_librarys(error):
                        raise
                    message = f"{type(error).__name__} when the tokenizer is used: {error}"
                    seen.problem("load", shown_plain(message), remedy=CURE)
            return seen.report().model_dump(mode="json")

        ending = run_bounded(step, bounds)
    match ending:
        case Answered(value=value):
            ledger.absorb(value)
        case Exceeded(limit=limit):
            ledger.doubt(
                f"loading the tokenizer and trying it on our texts took more than {limit}",
                remedy="try a faster machine or raise load_time_limit_s and load_memory_limit_mib in the policy; "
                "a tokenizer that needs minutes here is broken or hostile",
            )
        case Crashed(how=how):
            message = shown_plain(f"loading the tokenizer or trying it on our texts crashed: {how}")
            ledger.problem("load", message, remedy=CURE)


def _try(trial: Trial, variants: Variants, seen: Ledger) -> None:
    vocabulary, special = trial.vocabulary, trial.special
    compare_vocabularies(variants, rows=trial.rows, ledger=seen)
    compare(variants, rows=trial.rows, max_differing_texts=trial.max_differing_texts, ledger=seen)
    check_padding(variants, seen)
    check_in_text(variants, vocabulary, special, seen)
    if trial.baseline is not None:
        compare_baseline(variants, trial.baseline, trial.settings, exactly=trial.exactly, ledger=seen)
    if variants.loaded is not None:
        check_known_class(trial.settings, variants.loaded, version("transformers"), seen)
        if trial.template is not None:
            _compare_rendering(variants.loaded, trial.template, special, seen)
    round_trips(
        variants, vocabulary, max_lossy_texts=trial.max_lossy_texts, more_bytes=trial.more_bytes, rows=trial.rows,
        ledger=seen,
    )  # fmt: skip


def _is_the_librarys(error: Exception) -> bool:
    """Whether a library raised it, which is what the model's files made it do; compiled code raises bare ones."""
    last = traceback.extract_tb(error.__traceback__)[-1].filename
    return type(error) is Exception or not Path(last).is_relative_to(Path(__file__).parent)


def _stage(root: Path, files: Sequence[str], staged: Path) -> None:
    """Copy the tokenizer's own files, so that the library finds nothing else beside them."""
    for path in files:
        folder, _, name = path.rpartition("/")
        wanted = name.endswith(_STAGED_SUFFIXES) and not name.endswith(".index.json")
        if wanted and folder in ("", EXTRA_TEMPLATES) and (root / path).stat().st_size <= MAX_FILE_BYTES:
            (staged / folder).mkdir(exist_ok=True)
            shutil.copyfile(root / path, staged / path)


def _compare_rendering(loaded: Loaded, template: Template, special: SpecialTokens, seen: Ledger) -> None:
    """What transformers renders is what the file says."""
    if "strftime_now" in template.source:
        return  # a clock between the two renderings
    tokens = {f"{role}_token": token for role, token in special.texts.items()}
    own = render(template.source, SINGLE, tokens, generation_prompt=True)
    if own.text is None:
        return
    messages = [dict(message) for message in SINGLE]
    other = loaded.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    if other != own.text:
        seen.problem(
            "template-conflict",
            f"transformers renders another prompt than {template.path}: {shown(other)} instead of {shown(own.text)}",
            remedy="keep the template in one place, chat_template.jinja",
            path=template.path,
        )
