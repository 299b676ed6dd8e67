"""The audit as one page: what was verified, what is served, a lane for each place, and every release's timeline."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from modelctl.audit.events import Event
from modelctl.audit.serving import Serving, Span, lanes, serving_at
from modelctl.audit.violation import Verification
from modelctl.cli.audit_text import evidence, moment
from modelctl.page.document import document, section, table, text, wide

if TYPE_CHECKING:
    from modelctl.audit.view import View
    from modelctl.cli.audit_answer import Answer

_WIDTH, _ROW, _LABEL, _FOOT = 900, 34, 14, 22
_MIN_LABELLED = 60
_KINDS = {
    "refused": "bad", "record-changed": "bad", "unreadable": "bad", "unreviewed": "unsure", "waived": "unsure",
    "aborted": "unsure", "rolled-back": "unsure", "reverted": "unsure", "undecided": "unsure", "retired": "unsure",
}  # fmt: skip


def audit_page(answer: Answer, view: View) -> str:
    """The whole page."""
    events = answer.events
    what = " ".join(
        part for part in (view.name and f"of {view.name}", view.version, view.env and f"in {view.env}") if part
    )
    parts = [
        text(f"Audit {what}".strip(), tag="h1"),
        text(f"git history up to {answer.history.head[:12]}, {_range(events)}", kind="quiet"),
    ]
    if answer.history.shallow:
        parts.append(text("This clone is shallow: what is older is missing.", kind="headline unsure"))
    parts += _verified(answer.verification)
    commit = answer.commit or answer.history.head
    served = answer.serving
    if served is None and commit:
        served = serving_at(answer.history, answer.everything, commit, view.env)
    if served:
        parts.append(section(f"Served at {commit[:12]}", wide(_served(served))))
    drawn = {place: spans for place, spans in lanes(answer.history).items() if _is_shown(place, spans, view)}
    if drawn:
        note = text(
            "Solid: stable, by promotion or as the first one. Pale: a canary that was never promoted then.",
            kind="quiet",
        )
        parts.append(section("Environments over time", wide(draw_lanes(drawn)) + note))
    parts += _stories(events)
    return document(f"Audit {what}".strip(), parts)


def _verified(verification: Verification | None) -> Iterator[str]:
    if verification is None:
        yield text("Told from git history; nothing was verified (--verify).", kind="quiet")
        return
    words = {0: ("good", "Every claim agrees with every other"), 1: ("bad", "Claims contradict each other"),
             3: ("unsure", "Some claims could not be checked")}  # fmt: skip
    kind, headline = words[verification.exit_code]
    yield text(headline, kind=f"headline {kind}")
    yield text(
        f"releases {verification.releases}, deployments {verification.deployments}, signatures "
        f"{verification.signatures}, the bucket {'held against them' if verification.bucket else 'not looked at'}",
        kind="quiet",
    )
    if verification.violations:
        rows = [
            [item.rule, item.release or item.environment or "", item.message, (item.commit or "")[:12], item.remedy]
            for item in verification.violations
        ]
        head = ("rule", "about", "what was found", "commit", "next")
        yield section("What contradicts", table(head, rows, words=True))
    if verification.unverified:
        rows = [[item.release or "history", item.reason, item.remedy] for item in verification.unverified]
        yield section("What could not be checked", table(("about", "why", "next"), rows, words=True))


def _served(served: Sequence[Serving]) -> str:
    rows = [
        [
            f"{item.environment}: {item.release}",
            item.role,
            f"{moment(item.since)} by {(item.by or '').partition(' <')[0]}" if item.since else "",
            f"{item.verdict or 'no report'}, policy {item.policy}" if item.published else "never published",
            "; ".join(part.partition(" <")[0] for part in (item.approved_by or "", *item.reviewers) if part),
            (item.evidence or "")[:8],
        ]
        for item in served
    ]
    return table(("release", "role", "since", "admitted", "approved by", "report sha256"), rows, words=True)


def draw_lanes(drawn: dict[str, tuple[Span, ...]]) -> str:
    """A row for each place, a bar for each release that it named, as one `<svg>` that follows the page's colours."""
    now = max(_seconds(span.end or span.begin) for spans in drawn.values() for span in spans)
    begin = min(_seconds(span.begin) for spans in drawn.values() for span in spans)
    length = max(now - begin, 1.0) * 1.04  # what is served now reaches a little beyond the last commit
    height = len(drawn) * (_ROW + _LABEL) + _FOOT
    parts = []
    for number, (place, spans) in enumerate(drawn.items()):
        top = number * (_ROW + _LABEL)
        parts.append(
            f'<text x="0" y="{top + 11}" fill="var(--quiet)" style="font: 12px var(--font)">{escape(place)}</text>'
        )
        colours = {release: index for index, release in enumerate(dict.fromkeys(span.release for span in spans))}
        for index, span in enumerate(spans):
            left = (_seconds(span.begin) - begin) / length * _WIDTH
            right = ((_seconds(span.end) - begin) / length if span.end else 1.0) * _WIDTH
            parts.append(_bar(span, left, max(right - left, 2.0), top + _LABEL, colours[span.release], index == 0))
    for share, anchor in ((0.0, "start"), (1.0, "end")):
        day = datetime.datetime.fromtimestamp(begin + share * (now - begin), datetime.UTC).strftime("%Y-%m-%d")
        parts.append(
            f'<text x="{share * _WIDTH:.0f}" y="{height - 6}" text-anchor="{anchor}" fill="var(--quiet)" '
            f'style="font: 12px var(--font)">{day}</text>'
        )
    label = escape("what each environment named over time", quote=True)
    return f'<svg role="img" aria-label="{label}" viewBox="0 0 {_WIDTH} {height}">{"".join(parts)}</svg>'


def _bar(span: Span, left: float, width: float, top: float, index: int, first: bool) -> str:
    colour = f"var(--series-{index % 4 + 1})"
    version = span.release.partition("@")[2]
    until = moment(span.end) if span.end else "now"
    title = escape(f"{span.release}, {moment(span.begin)} to {until}{', promoted' if span.promoted else ''}")
    stable = span.promoted or first  # there was nothing to compare the first one with
    opacity = 1 if stable else 0.35
    words = ""
    if width >= _MIN_LABELLED:
        ink = "var(--paper)" if stable else "var(--ink)"
        words = (
            f'<text x="{left + 6:.1f}" y="{top + 17}" fill="{ink}" style="font: 12px var(--font)">'
            f"{escape(version[: int(width / 8)])}</text>"
        )
    return (
        f'<g><title>{title}</title><rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{_ROW - 8}" rx="3" '
        f'fill="{colour}" fill-opacity="{opacity}"/>{words}</g>'
    )


def _stories(events: Sequence[Event]) -> Iterator[str]:
    about: dict[str, list[Event]] = {}
    for item in events:
        about.setdefault(item.release or "policies, signers and environments", []).append(item)
    opened = len(about) <= _OPENED
    for release, story in sorted(about.items()):
        rows = "".join(_row(item) for item in story)
        head = "".join(f"<th>{word}</th>" for word in ("when (UTC)", "what", "who", "commit", "on which evidence"))
        body = f'<table class="words"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
        summary = (
            f'<summary><strong>{escape(release)}</strong> <span class="quiet">{escape(_sum(story))}</span></summary>'
        )
        start = "<details open>" if opened else "<details>"
        yield f"<section>{start}{summary}{wide(body)}</details></section>"


_OPENED = 12
"""Releases up to which every timeline is unfolded."""


def _row(item: Event) -> str:
    what = item.kind + (f" → {item.environment}" if item.environment else "")
    cells = (
        moment(item.when).replace(" ", "\u00a0"),
        what,
        item.who.partition(" <")[0],
        item.commit[:8],
        evidence(item),
    )
    kind = _KINDS.get(item.kind)
    attribute = f' class="{kind}"' if kind else ""
    return "<tr>" + "".join(f"<td{attribute}>{escape(cell)}</td>" for cell in cells) + "</tr>"


def _sum(story: Sequence[Event]) -> str:
    last = story[-1]
    where = f" in {last.environment}" if last.environment else ""
    return f"{len(story)} events, last: {last.kind}{where} on {last.when[:10]}"


def _range(events: Sequence[Event]) -> str:
    if not events:
        return "no events"
    first, last = min(events, key=lambda item: item.at), max(events, key=lambda item: item.at)
    return f"{len(events)} events from {first.when[:10]} to {last.when[:10]}"


def _is_shown(place: str, spans: Sequence[Span], view: View) -> bool:
    environment = place.partition("/")[0]
    names = {span.release.partition("@")[0] for span in spans}
    return view.env in (None, environment) and (view.name is None or view.name in names)


def _seconds(when: str) -> float:
    return datetime.datetime.fromisoformat(when).timestamp()
