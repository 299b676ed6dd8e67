"""Special tokens: what each file names as beginning, end and padding, and whether they mean the same token.

An end token that the model's files do not agree on is why a served model talks until its length limit. The tokenizer's
own must be among the ids of generation_config.json and config.json, of which each may list several.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from modelctl.model.strict_json import Json
from modelctl.tokenization.reading import MalformedError, whole_number
from modelctl.tokenization.report import Ledger, listed, shown
from modelctl.tokenization.vocabulary import Vocabulary

ROLES = ("bos", "eos", "pad", "unk", "sep", "cls", "mask")
_ID_ROLES = ("bos", "eos", "pad", "sep", "unk", "cls", "mask")
_OTHER_IDS = ("decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id")
_LISTS = ("additional_special_tokens", "extra_special_tokens")


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """Special tokens as the files name them."""

    texts: Mapping[str, str]
    """Role (`eos`) to text, of tokenizer_config.json, then special_tokens_map.json."""
    others: tuple[str, ...]
    """Further special tokens without a role."""
    model_ids: Mapping[str, Mapping[str, tuple[int, ...]]]
    """File name, then role, to ids: of config.json and generation_config.json."""
    disagreements: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Role to its texts in tokenizer_config.json and special_tokens_map.json, where both name one and they differ."""

    def end_ids(self) -> tuple[int, ...]:
        """Ids that end generation: generation_config.json's, without them config.json's."""
        for name in ("generation_config.json", "config.json"):
            ids = self.model_ids.get(name, {}).get("eos", ())
            if ids:
                return ids
        return ()


def read_special_tokens(
    tokenizer_config: Mapping[str, Json] | None,
    special_tokens_map: Mapping[str, Json] | None,
    model_files: Mapping[str, Mapping[str, Json]],
) -> SpecialTokens:
    """`model_files`: the sections that hold `eos_token_id` and so on, by file name. Raises `MalformedError`."""
    texts: dict[str, str] = {}
    others: list[str] = []
    disagreements: dict[str, tuple[str, str]] = {}
    for members in (tokenizer_config or {}, special_tokens_map or {}):
        for role in ROLES:
            text = _token(members.get(f"{role}_token"), where=f"{role}_token")
            if text is None:
                continue
            if texts.setdefault(role, text) != text:
                disagreements[role] = texts[role], text
        for key in _LISTS:
            others += _several(members.get(key), where=key)
    ids = {name: dict(_ids(members)) for name, members in model_files.items()}
    return SpecialTokens(texts=texts, others=tuple(dict.fromkeys(others)), model_ids=ids, disagreements=disagreements)


def check_known(special: SpecialTokens, vocabulary: Vocabulary, ledger: Ledger) -> None:
    """Every special token that is named exists; loading would append it with an id of its own."""
    named = [(f"{role}_token", text) for role, text in special.texts.items()]
    named += [("additional_special_tokens", text) for text in special.others]
    unknown = [f"{key} {shown(text)}" for key, text in named if text not in vocabulary.ids]
    if unknown:
        ledger.problem(
            "special-missing",
            f"special tokens that are not in the vocabulary: {listed(unknown)}; libraries append them past its end",
            remedy="name tokens that tokenizer.json has",
            path="tokenizer_config.json",
        )


def check_ids(special: SpecialTokens, vocabulary: Vocabulary, rows: int | None, ledger: Ledger) -> None:
    """Ids that the model's files name are tokens, and rows of the embedding."""
    for name, roles in special.model_ids.items():
        for role, numbers in roles.items():
            key = role if role.endswith("_id") else f"{role}_token_id"
            for number in numbers:
                if number in vocabulary.texts:
                    continue
                beyond = f", and the embedding ends at {rows - 1}" if rows is not None and number >= rows else ""
                ledger.problem(
                    "special-id",
                    f"{key} {number}: no token of the tokenizer has this id{beyond}",
                    remedy=f"set {key} in {name} to an id of tokenizer.json",
                    path=name,
                )


def check_end(special: SpecialTokens, *, writes: bool, ledger: Ledger) -> None:
    """A model that writes text has a token that ends it. `writes`: its architecture does."""
    if writes and "eos" not in special.texts and not special.end_ids():
        ledger.problem(
            "special-missing",
            "no file names an end token: generation runs to the length limit",
            remedy="name eos_token in tokenizer_config.json and eos_token_id in generation_config.json",
            path="tokenizer_config.json",
        )


def check_places(special: SpecialTokens, ledger: Ledger) -> None:
    """tokenizer_config.json and special_tokens_map.json name the same token for a role."""
    for role, (text, older) in special.disagreements.items():
        words = f"tokenizer_config.json names {shown(text)} as {role}_token, special_tokens_map.json {shown(older)}"
        if role in ("bos", "eos", "pad"):
            ledger.problem(
                f"{role}-token",
                f"{words}: programs differ in which they read",
                remedy="make both name the same token, or remove special_tokens_map.json",
                path="special_tokens_map.json",
            )
        else:
            ledger.warnings.append(words)


def check_agreement(special: SpecialTokens, vocabulary: Vocabulary, roles: tuple[str, ...], ledger: Ledger) -> None:
    """The tokenizer's token of each role is among the ids that the model's files name for it.

    Two files that name no id in common are a warning where the tokenizer agrees with one of them.
    """
    for role in roles:
        text = special.texts.get(role)
        number = vocabulary.ids.get(text) if text is not None else None
        stated = {name: ids[role] for name, ids in special.model_ids.items() if ids.get(role)}
        found = "; ".join(
            f"{name} says " + ", ".join(f"{one} ({shown(vocabulary.texts.get(one))})" for one in ids)
            for name, ids in stated.items()
        )
        if number is None or not stated or any(number in ids for ids in stated.values()):
            if len(stated) > 1 and not frozenset.intersection(*map(frozenset, stated.values())):
                ledger.warnings.append(f"{role}_token_id: {found}: programs differ in which they read")
            continue
        effect = {
            "eos": "generation does not stop where the tokenizer's text ends",
            "bos": "prompts begin differently from program to program",
            "pad": "batches are filled with a token that others read as text",
        }.get(role, "programs read it differently")
        ledger.problem(
            f"{role}-token",
            f"the tokenizer's {role}_token is {number} ({shown(text)}), but {found}: {effect}",
            remedy=f"make {role}_token_id of generation_config.json and config.json hold the tokenizer's {role}_token",
            path="generation_config.json" if "generation_config.json" in stated else "config.json",
        )


def _token(value: Json, *, where: str) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value
    content = value.get("content") if isinstance(value, Mapping) else None
    if isinstance(content, str):
        return content
    raise MalformedError(f"{where} is {shown(value)}, wanted a text or an object with 'content'")


def _several(value: Json, *, where: str) -> Iterator[str]:
    if isinstance(value, Mapping):  # named ones, as multimodal tokenizers have
        value = list(value.values())
    if value is None:
        return
    if not isinstance(value, list):
        raise MalformedError(f"{where} is {shown(value)}, wanted a list")
    for item in value:
        text = _token(item, where=where)
        if text is not None:
            yield text


def _ids(members: Mapping[str, Json]) -> Iterator[tuple[str, tuple[int, ...]]]:
    keys = {role: f"{role}_token_id" for role in _ID_ROLES} | {key: key for key in _OTHER_IDS}
    for role, key in keys.items():
        value = members.get(key)
        if value is None:
            continue
        several = value if isinstance(value, list) else [value]
        numbers = tuple(whole_number(number, where=key) for number in several)
        yield role, tuple(number for number in numbers if number != -1)  # -1 is an old way to say "none"
