"""What it takes to say which tensors an architecture has: facts of config.json, parameters, a family of models.

`families` describes the known ones with these. A fact that config.json leaves out is no guess: `NotStatedError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from modelctl.errors import InputError
from modelctl.model.config import ModelConfig
from modelctl.model.strict_json import Json

Shape = tuple[int | None, ...]
"""None where another rule compares: the rows of an embedding (`integrity.embedding-rows`)."""


class NotStatedError(InputError):
    """config.json leaves out what a shape depends on, so that nothing can be compared."""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One expected tensor."""

    name: str
    shape: Shape | None
    """None for a buffer of any shape."""
    linear: bool = False
    """A weight of outputs × inputs, which a quantiser may store packed."""
    optional: bool = False


class Facts:
    """The numbers of one config.json, by key. Raises `NotStatedError`, `InputError`."""

    def __init__(self, config: ModelConfig) -> None:
        self._text: Mapping[str, Json] = config.text
        self.hidden = self._stated("hidden_size", config.hidden_size)
        self.layers = self._stated("num_hidden_layers", config.num_layers)
        self.heads = self._stated("num_attention_heads", config.num_attention_heads)
        self.kv_heads = self._stated("num_key_value_heads", config.num_kv_heads)

    def count(self, key: str, default: int | None = None) -> int:
        """A natural number of config.json."""
        value = self._text.get(key)
        if value is None:
            return self._stated(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InputError(
                f"config.json: '{key}' is {ascii(value)[:80]}, wanted a whole number from 0 up",
                remedy=f"mend '{key}' in config.json or take the file from the upstream repository",
            )
        return value

    def maybe(self, key: str) -> int | None:
        """A natural number of config.json, None when it is not stated."""
        return None if self._text.get(key) is None else self.count(key)

    def flag(self, key: str, *, default: bool = False) -> bool:
        """A truth value of config.json."""
        value = self._text.get(key)
        return value if isinstance(value, bool) else default

    def head_dim(self, default: int | None = None) -> int:
        """Width of one attention head: as stated, else the family's default, else hidden size over heads."""
        return self.count("head_dim", default or self.hidden // self.heads)

    def numbers(self, key: str) -> frozenset[int]:
        """A list of whole numbers of config.json; empty when it is none."""
        value = self._text.get(key)
        return frozenset(item for item in value if isinstance(item, int)) if isinstance(value, list) else frozenset()

    @staticmethod
    def _stated(key: str, value: int | None) -> int:
        if value is None:
            raise NotStatedError(f"config.json does not state '{key}'")
        return value


@dataclass(frozen=True, kw_only=True)
class Family:
    """How one architecture names its tensors. Names of `outer` and `block` follow `base`, those of `block` a layer."""

    base: str
    """Before the names of a model with a head; left out in files of the bare model."""
    layer: str
    outer: Callable[[Facts], Iterator[Parameter]]
    block: Callable[[Facts, int], Iterator[Parameter]]
    tied: bool
    """Whether the head is the embedding when config.json does not say."""
    centred_norms: bool = False
    """Norms multiply by one plus their weight, so that a weight of zeros does nothing."""
