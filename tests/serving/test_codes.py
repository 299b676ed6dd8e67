from __future__ import annotations

import asyncio
from pathlib import Path

from modelctl.serving.client import EngineClient
from modelctl.serving.codes import CodePrompt, code_of, code_prompt, codes_in
from modelctl.serving.prompts import prompt_maker
from tests.support.engine import FaultEngine, Faults


def asked(folder: Path, faults: Faults, tokens: int) -> tuple[CodePrompt, str]:
    async def ask(engine: FaultEngine) -> tuple[CodePrompt, str]:
        async with EngineClient(engine.endpoint) as client:
            prompt = await code_prompt(client, await prompt_maker(client, seed=0), 7, tokens)
            return prompt, (await client.complete(prompt.prompt.content, answer_tokens=8, exact_answer=True)).text

    with FaultEngine(folder, faults) as engine:
        return asyncio.run(ask(engine))


def test_no_two_prompts_of_a_run_have_the_same_code() -> None:
    codes = [code_of(50_000_000 + serial) for serial in range(9000)]
    assert len(set(codes)) == 9000
    assert all(codes_in(f'x "{code}" y') == {code} for code in codes[:200])


def test_codes_are_found_in_any_writing_and_nothing_else_is() -> None:
    assert codes_in("Amber Badger 1234, then green fox 4321.") == {"amber badger 1234", "green fox 4321"}
    assert codes_in("an amber badger 123 and a badger 1234") == frozenset()


def test_a_prompt_has_the_length_asked_for_and_its_answer_the_code(tmp_path: Path) -> None:
    prompt, text = asked(tmp_path, Faults(), 100)
    assert len(prompt.prompt.content) == 100
    assert codes_in(text) == {prompt.code}


def test_without_tokenize_the_prompt_is_text_with_the_same_ending(tmp_path: Path) -> None:
    prompt, text = asked(tmp_path, Faults(no_tokenize=True), 100)
    assert isinstance(prompt.prompt.content, str)
    assert prompt.prompt.content.endswith('the code is "')
    assert codes_in(text) == {prompt.code}
