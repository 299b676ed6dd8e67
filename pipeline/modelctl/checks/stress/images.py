"""What the picture before every prompt costs: by how many tokens it makes a prompt longer, as the engine counts."""

from __future__ import annotations

from modelctl.checks.stress.session import Notes
from modelctl.errors import CannotDecideError
from modelctl.serving.client import EngineClient

_QUESTION = "Which colours are these?"


async def measure_image(client: EngineClient, notes: Notes) -> int:
    """Ask the same with a picture and without it, and add the difference as a figure.

    Raises `CannotDecideError` when a chat is not answered, with a picture or without.
    """
    counts = []
    for image in (False, True):
        answer = await client.complete(
            _QUESTION, answer_tokens=8, exact_answer=False, serial=-1, api="chat", image=image
        )  # fmt: skip
        if answer.row.failure is not None or answer.row.prompt_tokens is None:
            raise CannotDecideError(
                f"a chat {'with a picture' if image else 'without a picture'} is not answered: {answer.row.detail}",
                remedy="give the engine the model's chat template, or set concurrency.images: false in the policy",
            )
        counts.append(answer.row.prompt_tokens)
    tokens = counts[1] - counts[0]
    notes.measure("image-tokens", tokens, "tokens", {"pixels": "56x56"})
    if tokens <= 0:
        raise CannotDecideError(
            f"a picture makes a prompt no longer ({counts[0]} tokens without, {counts[1]} with it): it is dropped",
            remedy="see engine.log in the evidence; set concurrency.images: false to ask by text alone",
        )
    return tokens
