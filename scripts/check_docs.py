"""Check that the documents say what is: commands, options, targets, links, folders, exit codes, settings, rules.

Each function returns the problems it found, one sentence each, as `file: problem`. Nothing here needs a network or more
than the light environment.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click

import command_pages
import reference
import rules
from modelctl import errors
from modelctl.admission.policy import Policy
from modelctl.admission.waivers import WaiverFile
from modelctl.cli.main import INTERRUPTED, cli
from modelctl.field_docs import fields
from modelctl.settings import load_workspace

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
HOSTS = re.compile(r"pypi\.org|pythonhosted\.org|download\.pytorch\.org|npmjs\.(?:com|org)|registry-1\.docker\.io")
MACHINE_PATHS = re.compile(r"(?<![\w./-])/(?:work|root|home|Users|opt)/")


def documents() -> list[Path]:
    """Every Markdown document of the project."""
    folders = ("docs", "registry")
    return [*sorted(ROOT.glob("*.md")), *(path for name in folders for path in sorted((ROOT / name).rglob("*.md")))]


def commands(text: str) -> Iterator[str]:
    """Command lines in a document: lines of shell blocks, and inline code."""
    for language, body in FENCE.findall(text):
        if language in ("sh", "bash", "console"):
            yield from (line.strip().removeprefix("$ ") for line in body.replace("\\\n", " ").splitlines())
    yield from INLINE.findall(FENCE.sub("", text))


def check_command(line: str) -> str | None:
    """What is wrong with one command line; None when it is right, or not one of ours."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        return None
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        words = words[1:]
    if not words:
        return None
    if words[0] == "make":
        targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
        asked = [word for word in words[1:] if re.fullmatch(r"[a-z-]+", word) and not word.startswith("-")]
        return next((f"`{line}`: the Makefile has no target {word}" for word in asked if word not in targets), None)
    if Path(words[0]).name != "modelctl":
        return None
    command: click.Command = cli
    context = click.Context(cli, info_name="modelctl", help_option_names=["-h", "--help"])
    rest = words[1:]
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        try:
            found = command.get_command(context, rest[0])
        except ImportError as error:
            return f"`{line}`: {error}"
        if found is None:
            return None if rest[0] in ("…", "...") else f"`{line}`: no command {rest[0]}"
        command, rest = found, rest[1:]
    known = {
        option for parameter in command.get_params(context) for option in (*parameter.opts, *parameter.secondary_opts)
    }
    given = [word.partition("=")[0] for word in rest if word.startswith("--")]
    return next((f"`{line}`: {command.name} has no option {option}" for option in given if option not in known), None)


def bad_commands() -> Iterator[str]:
    """Commands, options and make targets that do not exist."""
    for path in documents():
        for line in commands(path.read_text(encoding="utf-8")):
            if problem := check_command(line):
                yield f"{path.relative_to(ROOT)}: {problem}"


def anchor(heading: str) -> str:
    """The anchor that a heading gets on a code host."""
    return re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-")


def bad_links() -> Iterator[str]:
    """Relative links whose file or heading is not there."""
    for path in documents():
        for target in LINK.findall(FENCE.sub("", path.read_text(encoding="utf-8"))):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, fragment = target.partition("#")
            file = (path.parent / name).resolve() if name else path
            if not file.exists():
                yield f"{path.relative_to(ROOT)}: link to {target}, which does not exist"
            elif fragment and fragment not in map(anchor, HEADING.findall(file.read_text(encoding="utf-8"))):
                yield f"{path.relative_to(ROOT)}: link to {target}, but {name or path.name} has no such heading"


def section(text: str, title: str) -> str:
    """The body of a section of a document; empty when there is none."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def bad_folder_map() -> Iterator[str]:
    """Folders that README names and that are not there, and those that it does not name."""
    text = section((ROOT / "README.md").read_text(encoding="utf-8"), "Folders")
    blocks = FENCE.findall(text)
    if not blocks:
        yield "README.md: no folder map under '## Folders'"
        return
    named: set[str] = set()
    parents: list[tuple[int, str]] = []
    for line in blocks[0][1].splitlines():
        if found := re.match(r"( *)([\w./-]+/)(?=\s|$)", line):
            depth = len(found[1])
            parents = [item for item in parents if item[0] < depth]
            name = "".join(parent for _, parent in parents) + found[2]
            parents.append((depth, found[2]))
            named.add(name.rstrip("/"))
    yield from (
        f"README.md: folder map names {name}/, which does not exist" for name in named if not (ROOT / name).is_dir()
    )
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split(
        "\n"
    )
    tops = {line.split("/")[0] for line in listing if "/" in line}
    parts = {"/".join(line.split("/")[:3]) for line in listing if re.match(r"pipeline/modelctl/\w+/\w+\.py", line)}
    covered = {name.split("/")[0] for name in named} | named
    yield from (f"README.md: folder map leaves out {name}/" for name in sorted((tops | parts) - covered))


def bad_exit_codes() -> Iterator[str]:
    """A table of exit codes that is not the code's."""
    text = section((ROOT / "README.md").read_text(encoding="utf-8"), "Exit codes")
    written = {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.ModelctlError)
    ]
    actual = {0, INTERRUPTED, *(kind.exit_code for kind in kinds)}
    if written != actual:
        yield f"README.md: exit codes {sorted(written)} in the table, {sorted(actual)} in the code"


def bad_settings() -> Iterator[str]:
    """Settings that docs/settings.md leaves out or that are no longer there."""
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([a-z_.]+)` \| `(MODELCTL_[A-Z_]+)` \|", text, re.MULTILINE))
    actual = {item.key: item.variable for item in load_workspace(ROOT, environ={}).origins}
    yield from (
        f"docs/settings.md: {key} ({actual[key]}) is not described" for key in sorted(actual.keys() - rows.keys())
    )
    yield from (f"docs/settings.md: there is no setting {key}" for key in sorted(rows.keys() - actual.keys()))
    wrong = (key for key in rows.keys() & actual.keys() if rows[key] != actual[key])
    yield from (f"docs/settings.md: the variable of {key} is {actual[key]}" for key in sorted(wrong))


def bad_rules() -> Iterator[str]:
    """Rules that docs/checks.md leaves out or that no code has."""
    text = (ROOT / "docs" / "checks.md").read_text(encoding="utf-8")
    written = set(re.findall(r"^- `([a-z-]+\.[a-z0-9-]+)`", text, re.MULTILINE))
    actual = rules.rules()
    yield from (f"docs/checks.md: rule {rule} is not described" for rule in sorted(actual - written))
    yield from (f"docs/checks.md: no code has the rule {rule}" for rule in sorted(written - actual))


def bad_reference() -> Iterator[str]:
    """Tables and schemas that no longer follow from the code, and keys of a policy that nothing is said of."""
    yield from reference.stale()
    yield from command_pages.gaps()
    for kind in (Policy, WaiverFile):
        yield from (
            f"{kind.__name__}: nothing is said of {'.'.join(field.key)}; write it under the field"
            for field in fields(kind)
            if not field.text
        )


def bad_strings() -> Iterator[str]:
    """Registry hosts and paths of one machine, in any tracked text file."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in listing.split("\0"):
        path = ROOT / name
        if not name or not path.is_file():
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            if HOSTS.search(line):
                yield f"{name}:{number}: a registry's host name; pip's own settings choose the index"
            if not name.startswith("tests/") and MACHINE_PATHS.search(line):
                yield f"{name}:{number}: a path of one machine"


def problems() -> list[str]:
    """Everything that is wrong."""
    checks = (
        bad_commands, bad_links, bad_folder_map, bad_exit_codes, bad_settings, bad_rules, bad_reference, bad_strings,
    )  # fmt: skip
    return [problem for check in checks for problem in check()]


def main() -> int:
    """Print what is wrong; 1 when something is."""
    found = problems()
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
