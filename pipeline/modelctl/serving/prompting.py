"""Prompts for each of the engine's interfaces.

Completions and embeddings take token ids, so that lengths are exact where the engine tokenises. A chat's template adds
tokens of its own: there a prompt is text, of the length that the engine's usage says of two samples.
"""

from __future__ import annotations

from modelctl.errors import CannotDecideError
from modelctl.serving.bodies import PATHS, Api
from modelctl.serving.client import EngineClient
from modelctl.serving.prompts import PromptMaker, prompt_maker

_SAMPLE_WORDS = (64, 192)


async def prompts_for(client: EngineClient, *, seed: int, api: Api) -> PromptMaker:
    """Learn how the engine counts. Raises `CannotDecideError` when it does not say."""
    if api == "completions":
        return await prompt_maker(client, seed=seed)
    if api == "embeddings":
        try:
            return await prompt_maker(client, seed=seed)
        except CannotDecideError:
            pass  # it does not tokenise: two samples tell
    sample = PromptMaker(seed=seed)
    counts = []
    for words in _SAMPLE_WORDS:
        prompt = sample.make(0, words).content
        row = (await client.complete(prompt, answer_tokens=8, exact_answer=False, api=api)).row
        if row.prompt_tokens is None:
            raise CannotDecideError(
                f"{client.endpoint.base_url}{PATHS[api]} does not answer: {row.detail}",
                remedy="see that the model has this interface, and name another with --api",
            )
        counts.append(row.prompt_tokens)
    slope = (counts[1] - counts[0]) / (_SAMPLE_WORDS[1] - _SAMPLE_WORDS[0])
    return PromptMaker(seed=seed, tokens_per_word=max(slope, 0.1))
