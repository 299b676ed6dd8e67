"""One tokenizer as two libraries load it: the file by `tokenizers`, the folder by transformers.

What does not load is a finding; what needs a package that is not here is a doubt. Call it in a bounded fork.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, overload

from modelctl.tokenization.reading import shown_plain
from modelctl.tokenization.report import Ledger

if TYPE_CHECKING:
    from tokenizers import Tokenizer

CURE = "take the tokenizer's files from one revision of the upstream repository"


class Loaded(Protocol):
    """What is used of a tokenizer that transformers loaded."""

    pad_token: str | None
    pad_token_id: int | None
    padding_side: str
    truncation_side: str

    @overload
    def __call__(self, text: str, **options: Any) -> Mapping[str, list[int]]:
        """Ids of a text under `input_ids`."""

    @overload
    def __call__(self, text: list[str], **options: Any) -> Mapping[str, list[list[int]]]:
        """Ids of each text of a list under `input_ids`; with `padding` also `attention_mask`."""

    def decode(self, ids: list[int], *, skip_special_tokens: bool, clean_up_tokenization_spaces: bool) -> str:
        """The text of ids."""

    def apply_chat_template(
        self, conversation: list[dict[str, str]], *, tokenize: bool, add_generation_prompt: bool
    ) -> object:
        """The rendered prompt when `tokenize` is False."""

    def get_vocab(self) -> dict[str, int]:
        """Every token with its id, added ones included."""


@dataclass(frozen=True, kw_only=True)
class Variants:
    """The same tokenizer, read by two libraries; either may be missing."""

    raw: Tokenizer | None
    loaded: Loaded | None

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, in one call of the first library that is there: many cores, no offsets."""
        if self.raw is not None:
            return [one.ids for one in self.raw.encode_batch_fast(list(texts), add_special_tokens=False)]
        if self.loaded is None or not texts:
            return []
        return list(self.loaded(list(texts), add_special_tokens=False, verbose=False)["input_ids"])

    def decode_all(self, ids: Sequence[list[int]]) -> list[str]:
        """The text of each, nothing skipped or tidied, likewise in one call."""
        if self.raw is not None:
            return list(self.raw.decode_batch(list(ids), skip_special_tokens=False))
        return [self.decoders[0][1](one) for one in ids]

    @cached_property
    def encoders(self) -> list[tuple[str, Callable[[str], list[int]]]]:
        """Name of the library and its function from text to ids, without special tokens."""
        found: list[tuple[str, Callable[[str], list[int]]]] = []
        raw, loaded = self.raw, self.loaded
        if raw is not None:
            found.append(("tokenizers", lambda text: list(raw.encode(text, add_special_tokens=False).ids)))
        if loaded is not None:
            found.append(
                ("transformers", lambda text: list(loaded(text, add_special_tokens=False, verbose=False)["input_ids"]))
            )
        return found

    @cached_property
    def decoders(self) -> list[tuple[str, Callable[[list[int]], str]]]:
        """Name of the library and its function from ids to text, nothing skipped or tidied."""
        found: list[tuple[str, Callable[[list[int]], str]]] = []
        raw, loaded = self.raw, self.loaded
        if raw is not None:
            found.append(("tokenizers", lambda ids: str(raw.decode(ids, skip_special_tokens=False))))
        if loaded is not None:
            found.append(
                (
                    "transformers",
                    lambda ids: loaded.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False),
                )
            )
        return found


def load(folder: Path, *, has_file: bool, asks_for_code: bool, ledger: Ledger) -> Variants:
    """Load from a folder that holds tokenizer files and nothing else. What does not load is a finding."""
    raw: Tokenizer | None = None
    loaded: Loaded | None = None
    if has_file:
        from tokenizers import Tokenizer

        try:
            raw = Tokenizer.from_file(str(folder / "tokenizer.json"))
            raw.no_truncation()
            raw.no_padding()
        except Exception as error:  # noqa: BLE001 - the library raises nothing narrower
            _unloadable("the tokenizers library", error, "tokenizer.json", ledger)
    from transformers import AutoTokenizer

    try:
        loaded = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False, local_files_only=True)
    except ImportError as error:
        ledger.doubt(
            shown_plain(f"transformers needs another package to load this tokenizer: {error}"),
            remedy="install the package that is named, or publish tokenizer.json",
        )
    except Exception as error:  # noqa: BLE001 - a hostile file may raise anything in there
        if asks_for_code:
            ledger.problem(
                "load",
                "the tokenizer needs the repository's own Python (auto_map), which is not run here",
                remedy="publish a tokenizer.json that loads without code",
                path="tokenizer_config.json",
            )
        else:
            _unloadable("transformers", error, None, ledger)
    return Variants(raw=raw, loaded=loaded)


def _unloadable(library: str, error: Exception, path: str | None, ledger: Ledger) -> None:
    ledger.problem(
        "load",
        shown_plain(f"{library} cannot load the tokenizer: {type(error).__name__}: {error}"),
        remedy=CURE,
        path=path,
    )
