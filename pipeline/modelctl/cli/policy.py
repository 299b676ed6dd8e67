"""`modelctl policy show|check|explain`: what a policy demands, whether the rules are sound, where each value stands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from modelctl.admission.policy import LoadedPolicy
    from modelctl.settings import Workspace

POLICY_REF = click.option(
    "--policy-ref", metavar="REF", help="Read from this commit (origin/main) instead of the working tree."
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Write JSON to stdout.")


@click.group(no_args_is_help=True)
def policy() -> None:
    """Admission policies: what they demand, and where each value comes from."""


@policy.command()
@click.argument("name", required=False)
@POLICY_REF
@AS_JSON
def show(name: str | None, policy_ref: str | None, as_json: bool) -> None:
    """Print the policy NAME whole: with what it extends, and with every default written out.

    NAME is a policy of policies/, one that comes with modelctl, or a file; without it the default policy.

    \b
    modelctl policy show production
    modelctl policy show ours --policy-ref origin/main
    """
    from modelctl.admission.policy_text import as_yaml
    from modelctl.settings import load_workspace

    loaded = _load(load_workspace(Path.cwd()), name, policy_ref)
    if as_json:
        body = {"digest": loaded.digest, "policy": loaded.policy.model_dump(mode="json", by_alias=True)}
        click.echo(json.dumps(body, indent=2, ensure_ascii=False))
        return
    click.echo(f"{loaded.place}, {loaded.digest}", err=True)
    click.echo(as_yaml(loaded), nl=False)


@policy.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@POLICY_REF
def check(names: tuple[str, ...], policy_ref: str | None) -> int:
    """Read the policies, every waiver and the list of signers, and say everything that is wrong.

    Without NAME all policies. Also wrong: a rule that is no CEL, an own check that is not installed here, an expired
    waiver. Exit codes: 0 all is well, 2 something is wrong.

    \b
    modelctl policy check
    """
    from modelctl.admission.policy_files import rule_files
    from modelctl.admission.policy_text import check as check_rules
    from modelctl.cli.main import say
    from modelctl.errors import InputError
    from modelctl.settings import load_workspace

    found = check_rules(rule_files(load_workspace(Path.cwd()).root, policy_ref), names)
    for loaded in found.policies:
        over = "".join(f" over {layer.name}" for layer in loaded.layers[1:])
        click.echo(f"{loaded.name}{over}  {loaded.digest}")
    click.echo(f"{found.waivers} waiver{'' if found.waivers == 1 else 's'}")
    for problem in found.problems:
        say(problem)
    return InputError.exit_code if found.problems else 0


@policy.command()
@click.argument("name", required=False)
@POLICY_REF
@click.option("--defaults/--no-defaults", default=True, help="Also values that no file writes.")
@click.option("--meanings", is_flag=True, help="Also what each value means.")
@AS_JSON
def explain(name: str | None, policy_ref: str | None, defaults: bool, meanings: bool, as_json: bool) -> None:
    """Print each value of the policy NAME and the file and line that it comes from.

    \b
    modelctl policy explain production --meanings
    modelctl policy explain ours --no-defaults
    """
    from modelctl.admission.policy_text import meaning, values
    from modelctl.settings import load_workspace

    workspace = load_workspace(Path.cwd())
    loaded = _load(workspace, name, policy_ref)
    rows = [item for item in values(loaded) if defaults or item.file is not None]
    if as_json:
        body = {
            item.key: {"value": item.value, "file": item.file, "line": item.line, "meaning": meaning(item.key)}
            for item in rows
        }
        click.echo(json.dumps({"digest": loaded.digest, "values": body}, indent=2, ensure_ascii=False))
        return
    from rich.table import Table

    from modelctl.cli.output import console

    heads = ("value", "", "from", *(("meaning",) if meanings else ()))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        table.add_column(head, overflow="fold")  # nothing of a place is cut off, however narrow the terminal
    for item in rows:
        place = f"{_short(item.file, workspace.root)}:{item.line}" if item.file else "default"
        shown = json.dumps(item.value, ensure_ascii=False)
        words = (meaning(item.key),) if meanings else ()
        table.add_row(item.key, shown, place, *words, style="" if item.file else "dim")
    click.echo(f"{loaded.place}, {loaded.digest}", err=True)
    console().print(table)


def _load(workspace: Workspace, name: str | None, ref: str | None) -> LoadedPolicy:
    from modelctl.admission.policy import load_policy
    from modelctl.admission.policy_files import rule_files
    from modelctl.admission.rulebook import default_policy

    files = rule_files(workspace.root, ref)
    return load_policy(name or default_policy(workspace, files), workspace.root, files)


def _short(file: str, root: Path) -> str:
    from modelctl.admission.policy_files import built_in_folder

    path = Path(file.partition(" at ")[0])  # the commit stands above the table
    if path.parent == built_in_folder():
        return f"modelctl:{path.name}"
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
