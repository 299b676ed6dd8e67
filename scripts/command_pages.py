"""docs/commands.md, from the help that the program prints, and docs/findings.md, from the checks' own words."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import click

import remedies
import rules
from modelctl.checks import CHECK_IDS
from modelctl.cli.main import COMMANDS, cli

WIDTH = 100
DOCS = Path(__file__).resolve().parent.parent / "docs"
COMMANDS_HEAD = """\
# Every command

Written from the program by `python scripts/reference.py`; `--help` after a command prints the same, as wide as the
terminal. What every exit code means stands in the [README](../README.md#exit-codes).
"""
FINDINGS_HEAD = """\
# Every finding, and how to mend it

Written from [the checks](checks.md), which say more, and from the code, whose words a report prints. An ellipsis stands
for what only a report knows: a file, a number, a name. Rules are stable: waivers refer to them.
"""


def help_text(names: tuple[str, ...]) -> str:
    """The help of a command as a terminal of `WIDTH` columns shows it."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(WIDTH)
    try:
        command: click.Command = cli
        settings = {"help_option_names": ["-h", "--help"]}
        context: click.Context = cli.context_class(cli, info_name="modelctl", **settings)  # type: ignore[arg-type]
        for name in names:
            found = command.get_command(context, name) if isinstance(command, click.Group) else None
            if found is None:
                raise SystemExit(f"no command {name}")
            command = found
            context = command.context_class(command, info_name=name, parent=context)
        return "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before


def every_command() -> Iterator[tuple[str, ...]]:
    """The names of each command, groups before what is below them."""
    context = click.Context(cli)
    for name in COMMANDS:
        yield (name,)
        command = cli.get_command(context, name)
        yield from ((name, inner) for inner in sorted(getattr(command, "commands", {})))


def commands_page() -> str:
    """docs/commands.md."""
    parts = [COMMANDS_HEAD]
    for names in ((), *every_command()):
        level = "##" if len(names) < 2 else "###"
        parts.append(f"{level} {' '.join(('modelctl', *names))}\n\n```text\n{help_text(names)}\n```\n")
    return "\n".join(parts)


def meanings() -> dict[str, str]:
    """What docs/checks.md and docs/policy.md say of each rule."""
    checks = (DOCS / "checks.md").read_text(encoding="utf-8")
    items = re.findall(
        r"^- `([a-z-]+\.[a-z0-9-]+)`(?:, [^:\n]*)?: (.*?)(?=^\S|^$|\Z)", checks, re.MULTILINE | re.DOTALL
    )
    found = {rule: " ".join(text.split()) for rule, text in items}
    policy = (DOCS / "policy.md").read_text(encoding="utf-8")
    found.update(re.findall(r"^\| `(policy\.[a-z-]+)` \| (.*?) \|$", policy, re.MULTILINE))
    return found


def findings_page() -> str:
    """docs/findings.md."""
    said, mended = meanings(), remedies.remedies()
    parts = [FINDINGS_HEAD]
    listed = rules.rules() | {rule for rule in said if rule.startswith("policy.")}
    for check_id in (*CHECK_IDS, "policy"):
        parts.append(f"## {check_id}\n\n| rule | what it means | to mend it |\n|---|---|---|")
        for rule in sorted(rule for rule in listed if rule.startswith(f"{check_id}.")):
            cells = (said.get(rule, ""), "; or: ".join(mended.get(rule, ())))
            why, how = (cell.replace("|", "\\|").replace("<", "&lt;") for cell in cells)
            parts.append(f"| `{rule}` | {why} | {how} |")
        parts.append("")
    return "\n".join(parts)


def gaps() -> Iterator[str]:
    """Rules that the page can't explain, one sentence each."""
    said, mended = meanings(), remedies.remedies()
    for rule in sorted(rules.rules()):
        if not said.get(rule):
            yield f"docs/checks.md: nothing is said of {rule}"
        if not mended.get(rule):
            yield f"{rule}: no remedy was found beside it in the code (scripts/remedies.py)"
