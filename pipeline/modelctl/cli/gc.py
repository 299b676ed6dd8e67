"""`modelctl gc`: releases that nothing serves and no policy keeps, named; removed only with --yes."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from modelctl.registry.removal import Held
    from modelctl.registry.staged import StagedArea
    from modelctl.rollout.retention import Judged


@click.command(
    epilog="Exit codes: 0 done, or nothing to do, 2 usage or settings, 3 what is served can't be known, or the store "
    "did not do it, 130 interrupted."
)
@click.argument("name", required=False)
@click.option("--keep-last", metavar="N", type=click.IntRange(min=1), default=3, show_default=True,
              help="Newest versions of each name that stay.")  # fmt: skip
@click.option("--older-than", metavar="DAYS", type=click.IntRange(min=0), default=90, show_default=True,
              help="Younger releases stay.")  # fmt: skip
@click.option("--staged-days", metavar="DAYS", type=click.IntRange(min=0), default=7, show_default=True,
              help="What admit --stage left and nobody published goes after so long.")  # fmt: skip
@click.option("--no-environments", is_flag=True, help="Nothing is served anywhere: git knows no environment, rightly.")
@click.option("--reason", metavar="TEXT", default="no environment serves it and no policy keeps it", help="For git.")
@click.option("--yes", is_flag=True, help="Retire them in git, then remove their bytes.")
@click.option("--json", "as_json", is_flag=True, help="Write the plan as JSON to stdout.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def gc(
    name: str | None,
    keep_last: int,
    older_than: int,
    staged_days: int,
    no_environments: bool,
    reason: str,
    yes: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Name the releases that nothing serves and no policy keeps, and remove their bytes when told so.

    What any branch or working tree serves stays, what it would go back to, the newest versions of each name, and what
    a policy retains. Without --yes nothing is written. With it each release is first retired by a commit, which the
    audit understands, and only then its bytes go; its record stays for ever.

    \b
    modelctl gc
    modelctl gc qwen3-4b --older-than 30 --keep-last 2 --yes
    """
    from modelctl.cli.listing import require_known
    from modelctl.cli.progress import shown
    from modelctl.registry.removal import held_in, remove
    from modelctl.registry.staged import staged_areas, unstage
    from modelctl.registry.summary import summaries
    from modelctl.rollout.lookup import open_store
    from modelctl.rollout.retention import Rules, judge, require_current, retire
    from modelctl.settings import load_workspace

    now = datetime.datetime.now(datetime.UTC)
    workspace = load_workspace(Path.cwd())
    root = workspace.root
    rules = Rules(keep_last=keep_last, older_than=datetime.timedelta(days=older_than), no_environments=no_environments)
    store = open_store(workspace, None)
    with shown(quiet=quiet) as progress:
        if yes:
            require_current(root)
        judged = [item for item in judge(root, rules, now) if name in (None, item.release.name)]
        held = held_in(store)
        known = {item.id: item.state for item in summaries(root)}
        going = [item for item in judged if not item.kept_because]
        left = [
            item
            for item in held.values()
            if name in (None, item.name)
            and (known.get(item.id) == "retired" or (item.id not in known and item.left_behind(now)))
        ]
        strange = [item.id for item in held.values() if item.id not in known and item.manifest]
        age = datetime.timedelta(days=staged_days)
        staged = [area for area in staged_areas(store) if name is None and area.older_than(age, now)]
        commits = []
        if yes:
            for item in going:
                commits.append(retire(root, item.release, reason=reason, now=now))
                progress.note(f"retired {item.release.id} (commit {commits[-1][:12]})")
            gone = [*left, *(held[item.release.id] for item in going if item.release.id in held)]
            remove(store, gone, progress, contents=_contents(root, gone))
            for area in staged:
                unstage(store, area.digest)
    if name is not None and not judged and not left:
        require_known(root, name)
    if as_json:
        click.echo(
            json.dumps(_as_plain(judged, left, staged, strange, commits, done=yes), indent=2, ensure_ascii=False)
        )
        return
    _tell(judged, left, staged, strange, commits, done=yes)


def _contents(root: Path, gone: list[Held]) -> dict[str, list[str]]:
    """The sha256s that may have hints, of those releases that have a record."""
    from modelctl.model.release import release_folder
    from modelctl.registry.contents import hinted
    from modelctl.registry.names import RECORD_FILE
    from modelctl.registry.records import load_record

    return {
        item.id: [entry.sha256 for entry in hinted(load_record(root, item.name, item.version).served.tree.files)]
        for item in gone
        if (release_folder(root, item.name, item.version) / RECORD_FILE).is_file()
    }


def _tell(
    judged: list[Judged],
    left: list[Held],
    staged: list[StagedArea],
    strange: list[str],
    commits: list[str],
    *,
    done: bool,
) -> None:
    from modelctl.cli.output import size_text

    going = [item for item in judged if not item.kept_because]
    word = "removed" if done else "may go"
    freed = sum(item.release.size_bytes or 0 for item in going)
    freed += sum(item.size_bytes for item in left) + sum(area.size_bytes for area in staged)
    for item in going:
        size = size_text(item.release.size_bytes or 0)
        when = item.release.published_at
        click.echo(f"{click.style(word, fg='yellow')}  {item.release.id}  {size}, published {when}")
    for held in left:
        what = "left from an unfinished removal or publication"
        click.echo(f"{click.style(word, fg='yellow')}  {held.id}  {size_text(held.size_bytes)}, {what}")
    for area in staged:
        what = "staged by an admission and never published"
        click.echo(f"{click.style(word, fg='yellow')}  {area.digest[:19]}…  {size_text(area.size_bytes)}, {what}")
    for item in judged:
        if item.kept_because:
            click.secho(f"kept     {item.release.id}  {'; '.join(item.kept_because)}", dim=True)
    for release in strange:
        click.echo(f"unknown  {release}  is in the bucket and not in this repository: never touched", err=True)
    others = len(left) + len(staged)
    click.echo(f"\n{len(going) + others} of {len(judged) + others} {word}: {size_text(freed)}")
    if done and commits:
        click.secho("next: git push", bold=True)
    elif not done and (going or left or staged):
        click.secho("next: the same command with --yes; until then nothing was written", bold=True)


def _as_plain(
    judged: list[Judged],
    left: list[Held],
    staged: list[StagedArea],
    strange: list[str],
    commits: list[str],
    *,
    done: bool,
) -> dict[str, object]:
    return {
        "done": done,
        "commits": commits,
        "releases": [
            {
                "release": item.release.id,
                "size_bytes": item.release.size_bytes,
                "goes": not item.kept_because,
                "kept_because": list(item.kept_because),
            }
            for item in judged
        ],
        "left_behind": [{"release": item.id, "size_bytes": item.size_bytes} for item in left],
        "staged": [{"served_digest": area.digest, "size_bytes": area.size_bytes} for area in staged],
        "unknown": strange,
    }
