"""Which text has which id, as the files themselves say: tokenizer.json, added_tokens_decoder and added_tokens.json.

Libraries mend clashes silently (they move a token or append one), so they are looked for here, before anything is
loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from modelctl.model.strict_json import Json
from modelctl.tokenization.reading import MalformedError, objects, optional_object, whole_number, word
from modelctl.tokenization.report import shown


@dataclass(frozen=True, kw_only=True)
class NamedToken:
    """A token outside the model's own list of pieces."""

    content: str
    id: int
    special: bool
    origin: str
    """The file that says so."""


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """Everything that has an id. `pieces` is the model's own list in tokenizer.json."""

    pieces: tuple[tuple[str, int], ...]
    named: tuple[NamedToken, ...]
    model: str
    """BPE, WordPiece, WordLevel or Unigram; "" without tokenizer.json."""
    unknown: str | None
    """The piece that stands for what cannot be written, as the model's part of tokenizer.json says."""
    byte_level: bool
    byte_fallback: bool
    normalizers: tuple[str, ...]
    """Types in order, sequences unfolded; `splitters` likewise, of the pre-tokenizer."""
    splitters: tuple[str, ...]
    truncation: int | None
    """Maximum length that tokenizer.json itself cuts at."""

    @cached_property
    def ids(self) -> Mapping[str, int]:
        """Id of a text, named tokens first."""
        return {**dict(self.pieces), **{token.content: token.id for token in reversed(self.named)}}

    @cached_property
    def texts(self) -> Mapping[int, str]:
        """Text of an id."""
        return {number: content for content, number in self.ids.items()}

    @cached_property
    def missing_bytes(self) -> tuple[int, ...]:
        """Byte values that no token can write, for a vocabulary that works on bytes; such bytes vanish from a text."""
        if self.byte_level:
            return tuple(value for value, letter in enumerate(byte_letters()) if letter not in self.ids)
        if self.byte_fallback:
            return tuple(value for value in range(256) if f"<0x{value:02X}>" not in self.ids)
        return ()


def byte_letters() -> tuple[str, ...]:
    """The letter that stands for each byte in a byte-level vocabulary.

    Printable Latin-1 bytes stand for themselves; the others, in order, take the letters from U+0100 on (GPT-2's table).
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    letters, following = [], 0x100
    for value in range(256):
        if value in printable:
            letters.append(chr(value))
        else:
            letters.append(chr(following))
            following += 1
    return tuple(letters)


def read_vocabulary(
    tokenizer: Mapping[str, Json] | None, config: Mapping[str, Json] | None, added: Mapping[str, Json] | None
) -> Vocabulary:
    """From tokenizer.json, tokenizer_config.json and added_tokens.json, where they are. Raises `MalformedError`."""
    tokenizer = tokenizer or {}
    model = optional_object(tokenizer, "model") or {}
    truncation = optional_object(tokenizer, "truncation")
    types = {key: tuple(_types(tokenizer.get(key))) for key in ("normalizer", "pre_tokenizer", "decoder")}
    pieces = tuple(_pieces(model))
    return Vocabulary(
        pieces=pieces,
        named=(
            *_added_tokens(tokenizer),
            *_added_tokens_decoder(config or {}),
            *(
                NamedToken(
                    content=text, id=whole_number(number, where=shown(text)), special=False, origin="added_tokens.json"
                )
                for text, number in (added or {}).items()
            ),
        ),
        model=_model_type(model),
        unknown=_unknown(model, pieces),
        byte_level="ByteLevel" in types["pre_tokenizer"] + types["decoder"],
        byte_fallback=model.get("byte_fallback") is True,
        normalizers=types["normalizer"],
        splitters=types["pre_tokenizer"],
        truncation=None
        if truncation is None
        else whole_number(truncation.get("max_length"), where="truncation.max_length"),
    )


def _pieces(model: Mapping[str, Json]) -> Iterator[tuple[str, int]]:
    vocab = model.get("vocab")
    if isinstance(vocab, Mapping):
        for text, number in vocab.items():
            yield text, whole_number(number, where=f"the id of {shown(text)}")
    elif isinstance(vocab, list):
        for number, row in enumerate(vocab):
            if not isinstance(row, list) or len(row) != 2 or not isinstance(row[0], str):
                raise MalformedError(f"model.vocab holds {shown(row)}, wanted [piece, score]")
            yield row[0], number
    elif vocab is not None:
        raise MalformedError(f"model.vocab is a {type(vocab).__name__}, wanted an object or a list")


def _added_tokens(tokenizer: Mapping[str, Json]) -> Iterator[NamedToken]:
    for row in objects(tokenizer, "added_tokens"):
        yield NamedToken(
            content=word(row.get("content"), where="content of an added token"),
            id=whole_number(row.get("id"), where="id of an added token"),
            special=row.get("special") is True,
            origin="tokenizer.json",
        )


def _added_tokens_decoder(config: Mapping[str, Json]) -> Iterator[NamedToken]:
    for key, row in (optional_object(config, "added_tokens_decoder") or {}).items():
        if not key.isascii() or not key.isdigit() or len(key) > 12 or not isinstance(row, Mapping):
            raise MalformedError(f"added_tokens_decoder holds {shown(key)}, wanted ids with objects")
        yield NamedToken(
            content=word(row.get("content"), where="content of an added token"),
            id=int(key),
            special=row.get("special") is True,
            origin="tokenizer_config.json",
        )


def _unknown(model: Mapping[str, Json], pieces: Sequence[tuple[str, int]]) -> str | None:
    stated, number = model.get("unk_token"), model.get("unk_id")
    if isinstance(stated, str):
        return stated
    if isinstance(number, int) and 0 <= number < len(pieces):
        return pieces[number][0]
    return None


def _model_type(model: Mapping[str, Json]) -> str:
    stated = model.get("type")
    if isinstance(stated, str):
        return stated
    return "BPE" if "merges" in model else ""


def _types(part: Json) -> Iterable[str]:
    """Types of a component, sequences unfolded; the file's depth is bounded, so the recursion is too."""
    if not isinstance(part, Mapping):
        return
    kind = part.get("type")
    if isinstance(kind, str) and kind != "Sequence":
        yield kind
    for key in ("normalizers", "pretokenizers", "decoders"):
        members = part.get(key)
        for member in members if isinstance(members, list) else []:
            yield from _types(member)
