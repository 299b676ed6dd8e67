"""`modelctl audit`: the timeline of every release from git history, what is served on which evidence, where releases
came from, and whether all claims agree."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from modelctl.audit.events import Event
    from modelctl.audit.history import History
    from modelctl.audit.memory import Memory
    from modelctl.audit.origins import Origin
    from modelctl.audit.serving import Serving
    from modelctl.audit.view import View
    from modelctl.audit.violation import Verification
    from modelctl.cli.audit_answer import Answer
    from modelctl.registry.store import ObjectStore

SHALLOW = "this clone is shallow: what happened before its oldest commit is missing, so nothing here is the whole story"


@click.command(
    epilog="Exit codes: 0 told; with --verify all claims agree. 1 some contradict. 2 usage. 3 some could not be "
    "checked, or this clone is shallow."
)
@click.argument("release", metavar="[NAME[@VERSION]]", required=False)
@click.option("--env", "environment", metavar="ENV", help="Only what happened in this environment.")
@click.option("--since", metavar="DATE", help="Only what was committed then (UTC) or later: 2026-01-31.")
@click.option("--until", metavar="DATE", help="Only what was committed then (UTC) or earlier.")
@click.option("--now", "now", is_flag=True, help="What is served, and the evidence behind it.")
@click.option("--at", "at", metavar="DATE", help="What was served at that moment (UTC): 2026-11-03T02:00.")
@click.option(
    "--source", metavar="REPO", help="Releases that came from it: ORG/NAME[@COMMIT], a folder, s3://…, a digest."
)
@click.option("--base", metavar="REPO", help="Releases made of this base model.")
@click.option("--policy", metavar="NAME|DIGEST", help="Releases that this policy admitted.")
@click.option("--waiver", metavar="NAME", help="Releases that needed this waiver.")
@click.option("--verify", "verified", is_flag=True, help="Check every claim against every other.")
@click.option("--bucket", is_flag=True, help="With --verify: hold the bucket against git too.")
@click.option(
    "--includes", metavar="COMMIT", multiple=True,
    help="With --verify: a commit noted before, which must still be there.",
)  # fmt: skip
@click.option("--fresh", is_flag=True, help="Do not go by what an earlier run in this clone found.")
@click.option("--json", "json_target", metavar="FILE|-", help="Write what was found as JSON; - is stdout.")
@click.option("--csv", "csv_target", metavar="FILE|-", help="The same as CSV, for spreadsheets.")
@click.option("--html", "html_target", metavar="FILE", help="Write one page that needs nothing else.")
def audit(
    release: str | None,
    environment: str | None,
    since: str | None,
    until: str | None,
    now: bool,
    at: str | None,
    source: str | None,
    base: str | None,
    policy: str | None,
    waiver: str | None,
    verified: bool,
    bucket: bool,
    includes: tuple[str, ...],
    fresh: bool,
    json_target: str | None,
    csv_target: str | None,
    html_target: str | None,
) -> int:
    """Who let which model in, on which evidence: the timeline of every release, from git history alone.

    \b
    modelctl audit qwen3-4b@1.2.0
    modelctl audit --env prod --now
    modelctl audit --env prod --at 2026-11-03T02:00
    modelctl audit --source org/model --json -
    modelctl audit --verify
    """
    import gc

    from modelctl.audit.history import read_history
    from modelctl.audit.memory import Memory
    from modelctl.audit.timeline import events_of
    from modelctl.audit.view import View
    from modelctl.cli.audit_answer import Answer
    from modelctl.files import find_root

    search = {"source": source, "base": base, "policy": policy, "waiver": waiver}
    searched = any(word is not None for word in search.values())
    _refuse_both(now=now, at=at, search=searched, verified=verified, rest=bucket or bool(includes))
    name, version = _wanted(release)
    moment, begin, end = _time("--at", at), _time("--since", since), _time("--until", until)
    view = View(name=name, version=version, env=environment, since=begin, until=end)
    store = _store() if bucket else None
    gc.disable()  # all that is read is kept to the end: looking for garbage takes a tenth of the time for nothing
    try:
        history = read_history(find_root(Path.cwd()))
        memory = Memory(None) if fresh else Memory.of(history)
        everything = events_of(history, memory)
    finally:
        gc.freeze()
        gc.enable()
    if not history.shallow:
        view.require_known(everything)
    commit, serving = _serving(history, everything, view, moment) if now or moment else (None, None)
    answer = Answer(
        history=history,
        everything=everything,
        events=view.of(everything),
        commit=commit,
        serving=serving,
        releases=_releases(history, everything, view, search) if searched else None,
        verification=_verification(history, view, memory, store, includes) if verified else None,
    )
    memory.save(whole=False)
    _deliver(answer, view, json_target, csv_target, html_target)
    return answer.exit_code


def _serving(
    history: History, everything: list[Event], view: View, moment: datetime.datetime | None
) -> tuple[str, list[Serving]]:
    """What was served at a moment, or is now, and the commit that says it."""
    from modelctl.audit.serving import commit_at, serving_at

    commit = commit_at(history, moment) if moment else history.head
    found = serving_at(history, everything, commit, view.env) if commit else []
    return commit, [item for item in found if _is_about(item.release, view)]


def _releases(history: History, everything: list[Event], view: View, search: Mapping[str, str | None]) -> list[Origin]:
    from modelctl.audit.origins import Search, origins

    return [item for item in origins(history, everything, Search(**search)) if _is_about(item.release, view)]


def _verification(
    history: History, view: View, memory: Memory, store: ObjectStore | None, includes: tuple[str, ...]
) -> Verification:
    from modelctl.audit.verify import Asked, verify_history

    asked = Asked(name=view.name, version=view.version, env=view.env, store=store, includes=includes)
    return verify_history(history, asked, memory)


def _deliver(
    answer: Answer, view: View, json_target: str | None, csv_target: str | None, html_target: str | None
) -> None:
    from modelctl.cli.audit_answer import to_csv, to_json
    from modelctl.cli.output import write_json
    from modelctl.errors import InputError

    if json_target == "-" and csv_target == "-":
        raise InputError("--json - and --csv - both want stdout", remedy="give one of them a file")
    if json_target:
        write_json(json_target, to_json(answer))
    if csv_target:
        write_json(csv_target, to_csv(answer))
    if html_target:
        from modelctl.cli.audit_page import audit_page

        write_json(html_target, audit_page(answer, view))
    _print(answer, taken="-" in (json_target, csv_target))


def _print(answer: Answer, *, taken: bool) -> None:
    """For people; only the verification's outcome where a program takes stdout."""
    from modelctl.cli.output import console

    if not taken:
        _print_told(answer)
    if answer.verification is not None:
        from modelctl.cli.audit_text import print_verification

        print_verification(answer.verification, console(stderr=taken))
    if answer.history.shallow:
        console(stderr=True).print(f"{SHALLOW}\nnext: git fetch --unshallow --tags", style="yellow", soft_wrap=True)


def _print_told(answer: Answer) -> None:
    from modelctl.cli.audit_text import MANY, print_events, print_origins, print_serving, write_events
    from modelctl.cli.output import console

    if answer.serving is not None:
        print_serving(answer.serving, answer.commit or "", console())
    elif answer.releases is not None:
        print_origins(answer.releases, console())
    elif len(answer.events) > MANY:
        write_events(answer.events, sys.stdout)
    else:
        print_events(answer.events, console())


def _refuse_both(*, now: bool, at: str | None, search: bool, verified: bool, rest: bool) -> None:
    from modelctl.errors import InputError

    if sum((now, at is not None, search)) > 1:
        raise InputError(
            "--now, --at and the searches (--source, --base, --policy, --waiver) are questions of their own",
            remedy="ask one after the other",
        )
    if rest and not verified:
        raise InputError("--bucket and --includes belong to --verify", remedy="add --verify")


def _wanted(release: str | None) -> tuple[str | None, str | None]:
    if release is None or "@" not in release:
        return release, None
    from modelctl.model.release import parse_release_id

    return parse_release_id(release)


def _is_about(release: str, view: View) -> bool:
    name, _, version = release.partition("@")
    return view.name in (None, name) and view.version in (None, version)


def _time(option: str, text: str | None) -> datetime.datetime | None:
    from modelctl.errors import InputError

    if text is None:
        return None
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(
            f"{option}: '{text}' is no date", remedy="write it as 2026-01-31 or 2026-01-31T18:00 (UTC)"
        ) from error
    if option == "--until" and len(text) == len("2026-01-31"):
        found += datetime.timedelta(days=1, microseconds=-1)
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)


def _store() -> ObjectStore:
    """The bucket of the settings."""
    from modelctl.registry.store import ObjectStore
    from modelctl.settings import load_workspace

    workspace = load_workspace(Path.cwd())
    return ObjectStore.open(workspace.settings.store, state=workspace.state)
