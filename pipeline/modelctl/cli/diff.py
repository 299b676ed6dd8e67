"""`modelctl diff A B`: two releases or folders side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from modelctl.progress import Progress
    from modelctl.registry.difference import Difference, Pair, Read, Side
    from modelctl.settings import Workspace

SHOWN = 40
"""Lines of a section, unless --all is given."""


@click.command(epilog="Exit codes: 0 the same bytes, 1 they differ, 2 usage or no such release.")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("--offline", is_flag=True, help="Ask nothing of the object store: only what records say.")
@click.option("--all", "everything", is_flag=True, help="Every line of every section.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON to stdout.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def diff(a: str, b: str, offline: bool, everything: bool, as_json: bool, quiet: bool) -> int:
    """Two releases or folders side by side: files, configuration, tokenizer, tensors, measurements.

    A and B are releases of this registry repository or folders. Of a release's files only what differs is read, and of
    weights only their headers.

    \b
    modelctl diff qwen3-4b@1.1.0 qwen3-4b@1.2.0
    modelctl diff qwen3-4b@stable:prod qwen3-4b@canary:prod
    modelctl diff ./folder ./folder-4bit
    """
    from modelctl.cli.progress import shown
    from modelctl.registry.difference import compare_sides
    from modelctl.settings import load_workspace

    workspace = load_workspace(Path.cwd())
    with shown(quiet=quiet) as progress:
        one, other = (_side(named, workspace, progress, offline=offline) for named in (a, b))
        found = compare_sides(one, other)
    if as_json:
        body = {"a": one.label, "b": other.label, "same": found.same, **asdict(found)}
        click.echo(json.dumps(body, indent=2, ensure_ascii=False))
    else:
        for line in _lines(found, one.label, other.label, limit=None if everything else SHOWN):
            click.echo(line)
    return 0 if found.same else 1


def _side(named: str, workspace: Workspace, progress: Progress, *, offline: bool) -> Side:
    from modelctl.model.tree import scan_tree
    from modelctl.registry.difference import Side

    folder = Path(named)
    if folder.is_dir():
        tree = scan_tree(folder, progress=progress, label=f"hash {named}")

        def from_folder(path: str, offset: int, length: int) -> bytes:
            with tree.location(path).open("rb") as stream:
                stream.seek(offset)
                return stream.read(length)

        return Side(label=named, files=tree.by_path, read=from_folder)
    return _release(named, workspace, progress, offline=offline)


def _release(named: str, workspace: Workspace, progress: Progress, *, offline: bool) -> Side:
    from modelctl.errors import InputError
    from modelctl.registry.difference import Side
    from modelctl.registry.dossier import gather
    from modelctl.rollout.lookup import find

    if "@" not in named and not named.startswith("sha256:"):
        raise InputError(
            f"'{named}' is neither a folder nor NAME@VERSION",
            remedy="check the path, or write for example smollm2-135m@1.0.0",
        )
    found = find(workspace, named)
    if found.why:
        progress.note(found.why)
    dossier = gather(workspace.root, found.name, found.version, None)
    if dossier.record is None:
        raise InputError(
            f"{found.id} is not published: there is nothing of it to compare",
            remedy="name the folder of its model instead",
        )
    spec = dossier.release.spec if dossier.release else None
    quantization = spec.quantization if spec else None
    facts = {
        "licence": spec.license if spec else None,
        "source": dossier.record.source.description,
        "policy": dossier.record.policy.name,
        "quantization": f"{quantization.method} {quantization.bits} bits" if quantization else None,
        "total size": f"{dossier.record.served.size_bytes} bytes",
    }
    prefix = dossier.record.served.uri.removeprefix("s3://").partition("/")[2]
    return Side(
        label=found.id,
        files=dossier.record.served.tree.by_path,
        facts={key: value for key, value in facts.items() if value is not None},
        report=dossier.report,
        read=None if offline else _from_bucket(workspace, prefix),
    )


def _from_bucket(workspace: Workspace, prefix: str) -> Read:
    def read(path: str, offset: int, length: int) -> bytes:
        from modelctl.rollout.lookup import open_store

        store = open_store(workspace, None)
        blocks = []
        have = 0
        for block in store.stream(f"{prefix}/{path}", offset=offset, length=length) if length else ():
            blocks.append(block)
            have += len(block)
            if have >= length:
                break
        return b"".join(blocks)[:length]

    return read


def _lines(found: Difference, a: str, b: str, *, limit: int | None) -> Iterator[str]:
    yield click.style(f"{a} → {b}", bold=True) + (": the same bytes" if found.same else "")
    yield from _section("release", found.facts, limit)
    yield from _section(f"files ({found.equal_files} equal)", found.files, limit)
    yield from _section("configuration", found.config, limit)
    yield from _section("tokenizer", found.tokenizer, limit)
    if found.equal_tensors is not None and (found.tensors or found.equal_tensors):
        same = "" if found.tensors else ": the same names, types and shapes"
        yield from _section(f"tensors ({found.equal_tensors} equal{same})", found.tensors, limit, empty=True)
    yield from _section("checks and measurements", found.measurements, limit)
    for note in found.not_compared:
        yield click.style(f"\nnot compared: {note}", fg="yellow")


def _section(title: str, pairs: Sequence[Pair], limit: int | None, *, empty: bool = False) -> Iterator[str]:
    if not pairs and not empty:
        return
    yield "\n" + click.style(title, bold=True)
    shown = pairs[:limit]
    width = min(60, max((len(pair.name) for pair in shown), default=0))
    for pair in shown:
        if pair.a is None or pair.b is None:
            mark, colour, text = ("+", "green", pair.b) if pair.a is None else ("-", "red", pair.a)
        elif pair.a == pair.b:
            mark, colour, text = " ", None, pair.a
        else:
            mark, colour, text = "~", "yellow", f"{pair.a} → {pair.b}"
        yield click.style(f"  {mark} {pair.name:<{width}}  {text}", fg=colour)
    if len(shown) < len(pairs):
        yield click.style(f"    and {len(pairs) - len(shown)} more (--all)", dim=True)
