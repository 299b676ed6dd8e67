"""Prompts whose answers can be told apart: each ends with a code of its own, said once and begun again.

A model that continues text copies what stood there before, so the answer begins with the prompt's own code. An answer
with the code of another prompt was mixed up by the engine: codes are four digits and two words, and no two prompts of
a run have the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from modelctl.serving.client import EngineClient
from modelctl.serving.prompts import Prompt, PromptMaker, tokenize

CODE_TOKENS = 24
"""Tokens of answer that hold a code in every common vocabulary, one token a digit included."""
_COLORS = ("amber", "black", "copper", "golden", "green", "ivory", "purple", "red", "silver", "white")
_ANIMALS = ("badger", "bear", "eagle", "fox", "goat", "hawk", "horse", "lion", "otter", "wolf")
_NUMBERS = 9000
_STRIDE = 7919
"""A prime that does not divide 9000: neighbouring serials get numbers far apart, and 9000 serials none twice."""
_CODE = re.compile(rf"\b({'|'.join(_COLORS)}) ({'|'.join(_ANIMALS)}) (\d{{4}})\b", re.I)


@dataclass(frozen=True, kw_only=True)
class CodePrompt:
    """A prompt and the code that its answer should begin with."""

    prompt: Prompt
    code: str


def code_of(serial: int) -> str:
    """The code of a prompt; different for any 9000 serials in a row."""
    number = 1000 + serial * _STRIDE % _NUMBERS
    return f"{_COLORS[serial % len(_COLORS)]} {_ANIMALS[serial // len(_COLORS) % len(_ANIMALS)]} {number}"


def codes_in(text: str) -> frozenset[str]:
    """All codes that stand in a text, in small letters."""
    return frozenset(" ".join(found.groups()).lower() for found in _CODE.finditer(text))


async def code_prompt(client: EngineClient, prompts: PromptMaker, serial: int, tokens: int) -> CodePrompt:
    """The prompt number `serial` of `tokens` tokens, or a few more where that is too short for its ending."""
    code = code_of(serial)
    ending = f' The code is "{code}". Everyone here knows the code: the code is "'
    if not prompts.exact:
        body = prompts.make(serial, max(1, tokens - 2 * CODE_TOKENS)).content
        return CodePrompt(prompt=Prompt(serial=serial, content=f"{body}{ending}"), code=code)
    ids = await tokenize(client, ending, special=False) or ()
    body = prompts.make(serial, max(16, tokens - len(ids))).content
    if isinstance(body, str):
        raise AssertionError("an exact prompt is token ids")
    return CodePrompt(prompt=Prompt(serial=serial, content=body + ids), code=code)
