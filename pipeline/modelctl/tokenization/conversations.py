"""Judges one chat template: safe, bounded, renders conversations, keeps messages, ends where generation ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from modelctl.tokenization.bounded import Answered, Bounds, Crashed, Exceeded, run_bounded
from modelctl.tokenization.reading import shown_plain
from modelctl.tokenization.rendering import (
    ANSWERED,
    MULTI_TURN,
    SINGLE,
    WITH_SYSTEM,
    Message,
    dropped,
    end_of_turn,
    render,
)
from modelctl.tokenization.report import Ledger, listed, shown
from modelctl.tokenization.special import SpecialTokens
from modelctl.tokenization.templates import DEFAULT, Template, suspicious
from modelctl.tokenization.tool_rendering import judge_tools
from modelctl.tokenization.vocabulary import Vocabulary

_CURE = "take the template from the upstream repository, or mend it"


def judge(
    template: Template,
    special: SpecialTokens,
    vocabulary: Vocabulary,
    bounds: Bounds,
    *,
    render_it: bool,
    ledger: Ledger,
) -> None:
    """Look at one template in a bounded fork and write down what was seen. `render_it`: chat endpoints use it."""

    def step() -> JsonValue:
        seen = Ledger()
        if _is_safe(template, seen) and render_it:
            _judge_rendering(template, special, vocabulary, seen)
            if not seen.problems:
                judge_tools(template, {f"{role}_token": text for role, text in special.texts.items()}, seen)
        return seen.report().model_dump(mode="json")

    ledger.templates_total += 1
    match run_bounded(step, bounds):
        case Answered(value=value):
            ledger.absorb(value)
            ledger.templates += 1
        case Exceeded(limit=limit):
            ledger.problem(
                "template-limits",
                f"compiling and rendering a few short messages took more than {limit}",
                remedy=_CURE,
                path=template.path,
            )
        case Crashed(how=how):
            ledger.problem(
                "template-limits", f"compiling or rendering it crashed: {how}", remedy=_CURE, path=template.path
            )


def _is_safe(template: Template, seen: Ledger) -> bool:
    from jinja2.exceptions import TemplateSyntaxError

    try:
        reached = suspicious(template.source)
    except TemplateSyntaxError as error:
        seen.problem(
            "template-syntax",
            shown_plain(f"does not parse: {error.message} (line {error.lineno})"),
            remedy=_CURE,
            path=template.path,
        )
        return False
    except RecursionError:
        seen.problem("template-syntax", "is nested too deeply to parse", remedy=_CURE, path=template.path)
        return False
    if reached:
        _unsafe(template, f"reaches for {listed(reached)}", seen)
    return not reached


def _unsafe(template: Template, what: str, seen: Ledger) -> None:
    seen.problem(
        "template-unsafe",
        shown_plain(f"the chat template {what}: no chat template needs this, and it is how code is run from one"),
        remedy="do not load this repository with any program; take the template from the upstream repository",
        path=template.path,
    )


def _judge_rendering(template: Template, special: SpecialTokens, vocabulary: Vocabulary, seen: Ledger) -> None:
    tokens = {f"{role}_token": text for role, text in special.texts.items()}
    parts = _wants_parts(template, tokens)
    conversations: list[tuple[str, Sequence[Message], bool]] = [
        ("one user message", SINGLE, True),
        ("user, assistant, user", MULTI_TURN, True),
        ("system, user", WITH_SYSTEM, False),
    ]
    for what, messages, needed in conversations:
        result = render(template.source, messages, tokens, generation_prompt=True, parts=parts)
        if result.text is None:
            if result.unsafe:
                _unsafe(template, f"reaches for what the sandbox forbids ({result.failure})", seen)
                return
            if not needed and result.refused:
                seen.warnings.append(f"{template.path}: the chat template refuses system messages")
                continue
            seen.problem(
                "template-render",
                shown_plain(f"does not render a conversation ({what}): {result.failure}"),
                remedy=_CURE,
                path=template.path,
            )
            if needed:
                return
            continue
        missing = dropped(messages, result.text)
        if missing:
            seen.problem(
                "template-drops-message",
                f"of a conversation ({what}) the rendered prompt lacks the content of: {', '.join(missing)}",
                remedy=_CURE,
                path=template.path,
            )
    _judge_end(template, tokens, special, vocabulary, seen, parts=parts)


def _wants_parts(template: Template, tokens: Mapping[str, str]) -> bool:
    """Whether plain text content fails or is lost, and a list of parts is rendered in full."""
    for parts in (False, True):
        result = render(template.source, SINGLE, tokens, generation_prompt=True, parts=parts)
        printed_as_data = parts and "'type'" in (result.text or "")
        if result.text is not None and not printed_as_data and not dropped(SINGLE, result.text):
            return parts
    return False


def _judge_end(
    template: Template,
    tokens: Mapping[str, str],
    special: SpecialTokens,
    vocabulary: Vocabulary,
    seen: Ledger,
    *,
    parts: bool,
) -> None:
    result = render(template.source, ANSWERED, tokens, generation_prompt=False, parts=parts)
    if template.name != DEFAULT or result.text is None or dropped(ANSWERED, result.text):
        return
    known = [*special.texts.values(), *special.others, *(token.content for token in vocabulary.named)]
    end = end_of_turn(result.text, known)
    seen.figure("chat-template-end", end, template=template.path)
    if end is None:
        seen.warnings.append(f"{template.path}: the template ends the assistant's turn with no token")
        return
    number = vocabulary.ids.get(end)
    if number is None:
        seen.problem(
            "template-end-token",
            f"the template ends the assistant's turn with {shown(end)}, which the tokenizer does not have as one token",
            remedy="use the template that belongs to this tokenizer, or the tokenizer that belongs to this template",
            path=template.path,
        )
        return
    ends = special.end_ids()
    eos = vocabulary.ids.get(special.texts.get("eos", ""))
    if not ends and eos is not None:
        ends = (eos,)
    if number not in ends:
        wanted = ", ".join(f"{one} ({shown(vocabulary.texts.get(one))})" for one in ends) or "none at all"
        seen.problem(
            "template-end-token",
            f"the template ends the assistant's turn with {shown(end)} ({number}), but generation stops on {wanted}: "
            "answers run on to the length limit",
            remedy=f"add {number} to eos_token_id in generation_config.json",
            path=template.path,
        )
