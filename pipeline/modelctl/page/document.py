"""One HTML file that needs nothing else: no script, no font, no picture from elsewhere.

Colours follow the reader's dark or light mode, and the layout a phone's width. Every text is escaped here.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_STYLE = """
:root { color-scheme: light dark; --font: system-ui, -apple-system, "Segoe UI", sans-serif; --paper: #ffffff;
  --panel: #f6f7f9; --ink: #1c2430; --quiet: #5b6675; --grid: #d9dee5; --good: #1a7f4b; --bad: #b42318;
  --unsure: #9a6700; --series-1: #2563a8; --series-2: #c2570c; --series-3: #1a7f4b; --series-4: #7b3fa0; }
@media (prefers-color-scheme: dark) { :root { --paper: #12161c; --panel: #1b212a; --ink: #e4e8ee; --quiet: #98a3b3;
  --grid: #333c48; --good: #4fc38a; --bad: #ff8379; --unsure: #e3b341; --series-1: #6cb0f5; --series-2: #f5a15e;
  --series-3: #5ed39b; --series-4: #c79bea; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 68rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 var(--font); overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.05rem; margin: 0 0 .5rem; }
h3 { font-size: .95rem; margin: 1rem 0 .25rem; }
.quiet { color: var(--quiet); } .good { color: var(--good); } .bad { color: var(--bad); }
.unsure { color: var(--unsure); } .headline { font-size: 1.15rem; font-weight: 600; margin: .75rem 0 1.25rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 1rem;
  margin: 0 0 1rem; }
section { background: var(--panel); border: 1px solid var(--grid); border-radius: .5rem; padding: 1rem;
  margin: 0 0 1rem; } .charts section { margin: 0; } svg { display: block; width: 100%; height: auto; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .3rem .6rem; border-bottom: 1px solid var(--grid); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } tr.marked td { font-weight: 600; }
table.words th, table.words td { text-align: left; white-space: normal; vertical-align: top; min-width: 5rem;
  overflow-wrap: break-word; }
.whole { white-space: nowrap; } .launch table { table-layout: fixed; } .launch th { width: 30%; }
.launch th:nth-child(2) { width: 40%; }
td.code { font: .85em/1.5 ui-monospace, monospace; overflow-wrap: anywhere; }
details > summary { cursor: pointer; } .narrow svg { max-width: 46rem; margin: 0 auto; }
.bar { display: block; height: .35rem; border-radius: .2rem; background: var(--grid); margin: .2rem 0 .35rem; }
.bar span { display: block; height: 100%; border-radius: inherit; background: var(--series-1); }
@media (max-width: 40rem) { table.words thead { display: none; } table.words tr { display: block; padding: .4rem 0;
    border-bottom: 1px solid var(--grid); } table.words td { display: block; border: 0; padding: .1rem 0; }
  table.words td:empty { display: none; } table.words td::before { content: attr(data-head); display: block;
    font-size: .8rem; color: var(--quiet); } table.words td:first-child { font-weight: 600; }
  .launch td::before, table.words td:first-child::before, table.words td[data-head=""]::before { display: none; } }
@media (max-width: 32rem) { body { padding: 1rem .6rem 2rem; } section { padding: .7rem .5rem; }
  .charts svg text { font-size: 12px !important; } }
@media print { section { break-inside: avoid; } }
.wide { min-width: 46rem; overflow-wrap: normal; }
"""


def document(title: str, parts: Sequence[str]) -> str:
    """The whole file; `parts` are HTML already."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def text(words: str, *, tag: str = "p", kind: str | None = None) -> str:
    """One element with plain text; `kind` is a class of the style."""
    attribute = f' class="{kind}"' if kind else ""
    return f"<{tag}{attribute}>{escape(words)}</{tag}>"


def section(title: str, content: str) -> str:
    """A panel; `content` is HTML already."""
    return f"<section>{text(title, tag='h2')}{content}</section>"


def wide(content: str) -> str:
    """HTML that is not squeezed on a narrow screen but scrolls sideways by itself."""
    return f'<div class="scroll"><div class="wide">{content}</div></div>'


def charts(parts: Sequence[tuple[str, str]]) -> str:
    """Panels with a chart each, beside one another where there is room: (title, svg)."""
    return f'<div class="charts">{"".join(section(title, svg) for title, svg in parts)}</div>'


def folded(title: str, content: str) -> str:
    """Content that shows when its title is chosen; `content` is HTML already."""
    return f"<details>{text(title, tag='summary', kind='quiet')}{content}</details>"


def share_bar(share: float) -> str:
    """How much of a whole, from 0 to 1, as a bar; beside a text that says it."""
    return f'<span class="bar" aria-hidden="true"><span style="width:{100 * min(max(share, 0), 1):.0f}%"></span></span>'


class Code(str):
    """A cell's text that is read letter by letter: a digest, a command. It breaks anywhere."""

    __slots__ = ()


class Html(str):
    """Markup that is safe already: a cell that holds it is not escaped."""

    __slots__ = ()


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, marked: int | None = None, words: bool = False) -> str:
    """A table; `marked` is the index of a row to stand out. One of figures scrolls sideways by itself on a narrow
    screen; with `words` its cells are text, and each row becomes a block there that names its columns."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    names = head if words else None
    body = "".join(_row(row, marked=number == marked, head=names) for number, row in enumerate(rows))
    kind = ' class="words"' if words else ""
    return f'<div class="scroll"><table{kind}><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _row(cells: Sequence[str], *, marked: bool, head: Sequence[str] | None) -> str:
    start = '<tr class="marked">' if marked else "<tr>"
    names = [""] * len(cells) if head is None else [f' data-head="{escape(name, quote=True)}"' for name in head]
    return start + "".join(map(_cell, cells, names)) + "</tr>"


def _cell(cell: str, attribute: str) -> str:
    kind = ' class="code"' if isinstance(cell, Code) else ""
    return f"<td{kind}{attribute}>{cell if isinstance(cell, Html) else escape(cell)}</td>"
