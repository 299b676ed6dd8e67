"""Compiles a chat template and renders conversations with it, in a fork with limits of time and memory.

Jinja folds constants when it compiles, so that a template can fill the memory before it is rendered; a loop may never
end. Runs in a child, after `template_rules` found nothing: what reaches into Python is not rendered at all. That a
template fails on our conversations is no matter of safety, and the tokenizer check's to judge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from modelctl.tokenization.bounded import Answered, Bounds, Crashed, Exceeded, run_bounded

if TYPE_CHECKING:
    from jinja2 import Template

MAX_RENDERED_CHARACTERS = 4 << 20
"""Each conversation here is under 10,000 characters."""
_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
_TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a place.",
        "parameters": {
            "type": "object",
            "properties": {"place": {"type": "string", "description": "a town"}, "days": {"type": "integer"}},
            "required": ["place"],
        },
    },
}
_CALL: Mapping[str, Any] = {
    "id": "call00001",
    "type": "function",
    "function": {"name": "weather", "arguments": {"place": "Bern"}},
}


def conversations() -> list[dict[str, Any]]:
    """What a template is rendered with: few and many turns, tools and their answers, parts, and extra switches."""
    user, reply = {"role": "user", "content": "Hello?"}, {"role": "assistant", "content": "Hello."}
    system = {"role": "system", "content": "Be short."}
    called = {"role": "assistant", "content": "", "tool_calls": [_CALL]}
    answer = {"role": "tool", "name": "weather", "tool_call_id": "call00001", "content": '{"sky": "clear"}'}
    parts = {"role": "user", "content": [{"type": "text", "text": "Hello?"}, {"type": "image"}]}
    return [
        {"messages": [user], "add_generation_prompt": True},
        {"messages": [system, user, reply, user], "add_generation_prompt": True, "enable_thinking": False},
        {"messages": [system, user, called, answer, reply, user], "tools": [_TOOL], "add_generation_prompt": True},
        {"messages": [user, reply] * 40 + [user], "add_generation_prompt": False, "enable_thinking": True},
        {"messages": [parts], "add_generation_prompt": True},
        {"messages": [{"role": "user", "content": "word " * 1500}], "documents": [{"title": "a", "text": "b"}]},
    ]


def trial(template: str, *, time_limit_s: float, memory_limit_bytes: int) -> list[str]:
    """Why a template is refused after being compiled and rendered; none when it ends within its limits.

    Raises `RuntimeError` for a fault of our own.
    """
    bounds = Bounds(time_limit_s=time_limit_s, memory_limit_bytes=memory_limit_bytes)
    match run_bounded(lambda: _render_all(template, conversations()), bounds):
        case Answered(value=list(reasons)):
            return [str(reason) for reason in reasons]
        case Answered(value=value):
            raise RuntimeError(f"a trial answered {value!r}")
        case Exceeded(limit=limit):
            return [f"compiling it and rendering a few short conversations takes more than {limit}"]
        case Crashed(how=how):
            return [f"compiling it or rendering a few short conversations crashes: {how[:200]}"]


def _render_all(template: str, given: Sequence[Mapping[str, Any]]) -> JsonValue:
    from modelctl.tokenization.rendering import environment

    try:
        compiled = environment().from_string(template)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - a template that can't be compiled renders nothing, and `tokenizer` says so
        return []
    for variables in given:
        reason = _render(compiled, variables)
        if reason is not None:
            return [reason]
    return []


def _render(compiled: Template, variables: Mapping[str, Any]) -> str | None:
    """Why one conversation is a reason to refuse, if it is."""
    from jinja2.exceptions import SecurityError

    length = 0
    try:
        for piece in compiled.generate(**{"tools": None, "documents": None, **_TOKENS, **variables}):
            length += len(piece)
            if length > MAX_RENDERED_CHARACTERS:
                return f"a short conversation becomes more than {MAX_RENDERED_CHARACTERS} characters"
    except SecurityError as error:
        return f"it reaches for what the sandbox forbids: {str(error)[:200]}"
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - whatever a hostile template makes jinja raise ends this rendering
        return None
    return None
