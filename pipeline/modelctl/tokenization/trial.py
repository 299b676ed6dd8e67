"""Tries the tokenizer in a bounded fork, on a copy of its files that has no weights and no Python beside it."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from modelctl.model.strict_json import Json
from modelctl.tokenization.behaviour import compare, compare_vocabularies, round_trips
from modelctl.tokenization.bounded import Answered, Bounds, Crashed, Exceeded, run_bounded
from modelctl.tokenization.reading import MAX_FILE_BYTES, shown_plain
from modelctl.tokenization.rendering import SINGLE, render
from modelctl.tokenization.report import Ledger, shown
from modelctl.tokenization.special import SpecialTokens
from modelctl.tokenization.templates import EXTRA_TEMPLATES, Template
from modelctl.tokenization.variants import CURE, Loaded, load
from modelctl.tokenization.vocabulary import Vocabulary

_STAGED_SUFFIXES = (".json", ".jinja", ".txt", ".model", ".tiktoken", ".bpe")


def try_tokenizer(
    root: Path,
    files: Sequence[str],
    *,
    settings: Mapping[str, Json],
    vocabulary: Vocabulary,
    special: SpecialTokens,
    rows: int | None,
    template: Template | None,
    max_lossy_texts: int | None,
    bounds: Bounds,
    ledger: Ledger,
) -> None:
    """Load the tokenizer of `root` and compare what it does.

    `settings` is tokenizer_config.json, `template` the chat template when nothing was found against it. Running out of
    `bounds` is a doubt, since a slow machine may be why; a crash is a finding.
    """
    ledger.tools |= {name: version(name) for name in ("tokenizers", "transformers")}
    with tempfile.TemporaryDirectory(prefix="tokenizer-") as made:
        staged = Path(made)
        _stage(root, files, staged)

        def step() -> JsonValue:
            # "Not installed": nothing here needs torch, and importing it is more than half of the start-up time.
            cast("dict[str, object]", sys.modules)["torch"] = None
            seen = Ledger()
            asks_for_code = "auto_map" in settings
            variants = load(staged, has_file="tokenizer.json" in files, asks_for_code=asks_for_code, ledger=seen)
            if variants.encoders:
                compare_vocabularies(variants, rows=rows, ledger=seen)
                compare(variants, rows=rows, ledger=seen)
                round_trips(variants, vocabulary, max_lossy_texts=max_lossy_texts, ledger=seen)
            if template is not None and variants.loaded is not None:
                _compare_rendering(variants.loaded, template, special, seen)
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
