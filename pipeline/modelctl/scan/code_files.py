"""Goes through a tree and gathers all that may be code: Python by name and by content, notebook cells, templates,
hooks, credentials.

Nothing is parsed as Python or jinja here; that is the child's work. Each file is read once. Hidden folders and odd
extensions make no difference.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from modelctl.model.content import ContentKind, identify
from modelctl.model.tree import FileEntry, Tree
from modelctl.scan import configs, gguf
from modelctl.scan.credentials import credentials

Rule = Literal[
    "auto-map", "custom-pipeline", "trust-remote-code", "unreadable-json", "unreadable-python", "unreadable-gguf",
    "template", "secret", "native-binary", "compiled-python", "yaml-object", "process",
]  # fmt: skip

MAX_PYTHON_BYTES = 4 << 20
MAX_GUESS_BYTES = 1 << 20
"""Longest text of another name that is tried as Python."""
MAX_TEMPLATE_BYTES = 1 << 20
_PYTHON_SUFFIXES = (".py", ".pyw", ".pyi", ".pyx", ".pxd")
_TEMPLATE_SUFFIXES = (".jinja", ".jinja2", ".j2")
_SHEBANG = re.compile(rb"#![^\n]*python")
_CODE_HINT = re.compile(rb"\b(import|exec|eval|lambda|def|class)\b|__\w+__|\w\(")
_MACH_O = (b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xfe\xed\xfa\xcf", b"\xfe\xed\xfa\xce")
_YAML_OBJECT = re.compile(rb"!!python/|tag:yaml\.org,2002:python/")
_SHELL_CELL = re.compile(r"\s*%%(!|bash|sh|script|system|sx|cmd|perl|ruby|javascript|js|html)\b")
_SHELL_LINE = re.compile(r"\s*(\w[\w, ]*=\s*)?(!|%(system|sx)\b)")
_MAGIC_LINE = re.compile(r"(\s*)(?:(\w[\w, ]*=\s*)%|%|\?|[\w.]+\?\??\s*$)")


@dataclass(frozen=True, kw_only=True)
class Unit:
    """Source to be parsed as Python. `certain`: its name or place says that it is; else its content has to."""

    path: str
    label: str
    """The path, and for a notebook the cell."""
    source: bytes
    certain: bool


@dataclass(frozen=True, kw_only=True)
class Template:
    """A chat template and where it was found."""

    path: str
    label: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A reason to refuse that needs no parser of code."""

    rule: Rule
    path: str
    detail: str


@dataclass(kw_only=True)
class Gathered:
    """Everything in a tree that may be code."""

    units: list[Unit] = field(default_factory=list)
    templates: list[Template] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    shell_scripts: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    """Files that are too large for text and no weights: only their first bytes were looked at."""


def gather(tree: Tree, *, advance: Callable[[float], None] = lambda _: None) -> Gathered:
    """Look at every file of the tree. Raises `OSError` when one can't be read."""
    gathered = Gathered()
    for entry in tree.files:
        _file(entry, tree.location(entry.path), gathered)
        advance(entry.size_bytes)
    return gathered


def _file(entry: FileEntry, location: Path, gathered: Gathered) -> None:
    path, suffix = entry.path, Path(entry.path).suffix.lower()
    kind = identify(location)
    large = entry.size_bytes > configs.MAX_JSON_BYTES
    with location.open("rb") as stream:
        head = stream.read(64)
        content = b"" if large else head + stream.read()
    if kind is ContentKind.EXECUTABLE or head.startswith(_MACH_O):
        _problem(gathered, "native-binary", path, "a program or library in machine code")
    if _is_compiled(head, path):
        _problem(gathered, "compiled-python", path, "compiled Python, which can't be examined")
    if kind is ContentKind.GGUF:
        _gguf(path, location, gathered)
    if large:
        if kind not in (ContentKind.SAFETENSORS, ContentKind.GGUF):
            gathered.unread.append(path)
        if suffix in (".json", ".ipynb", *_PYTHON_SUFFIXES):
            rule: Rule = "unreadable-python" if suffix in _PYTHON_SUFFIXES else "unreadable-json"
            _problem(gathered, rule, path, f"{entry.size_bytes} bytes are too many to be examined")
        return
    _text(entry.path, kind, content, gathered)


def _text(path: str, kind: ContentKind, content: bytes, gathered: Gathered) -> None:
    suffix, script = Path(path).suffix.lower(), bool(_SHEBANG.match(content))
    for what, line in credentials(content):
        _problem(gathered, "secret", path, f"line {line} holds {what}")
    if suffix in (".yaml", ".yml") and _YAML_OBJECT.search(content):
        _problem(gathered, "yaml-object", path, "YAML that builds Python objects when it is loaded (!!python/…)")
    if suffix in _PYTHON_SUFFIXES or script:
        _python(path, content, gathered)
    elif suffix in _TEMPLATE_SUFFIXES:
        _template(gathered, path, path, content.decode("utf-8", "backslashreplace"))
    elif suffix in (".json", ".ipynb") or (kind is ContentKind.JSON and _is_json(content)):
        _json(path, suffix, content, gathered)
    elif b"\0" not in content[:64] and len(content) <= MAX_GUESS_BYTES and _CODE_HINT.search(content):
        gathered.units.append(Unit(path=path, label=path, source=content, certain=False))
    if kind is ContentKind.SHELL and not script:
        gathered.shell_scripts.append(path)


def _python(path: str, content: bytes, gathered: Gathered) -> None:
    if len(content) > MAX_PYTHON_BYTES:
        _problem(gathered, "unreadable-python", path, f"{len(content)} bytes of Python are too many to be examined")
        return
    gathered.units.append(Unit(path=path, label=path, source=content, certain=True))


def _json(path: str, suffix: str, content: bytes, gathered: Gathered) -> None:
    try:
        document = configs.parse(content)
    except ValueError as error:
        if suffix == ".ipynb" or configs.may_hold_hooks(content):
            _problem(gathered, "unreadable-json", path, f"it does not parse ({str(error)[:120]}) and may load code")
        return
    for hook in configs.hooks(document, file_name=path.rpartition("/")[2]):
        _problem(gathered, hook.rule, path, hook.detail)
    for name, text in configs.templates(document):
        _template(gathered, path, f"{path} {name}", text)
    for number, source in configs.notebook_cells(document):
        _cell(path, number, source, gathered)


def _is_json(content: bytes) -> bool:
    """Whether all of a text is JSON: `identify` goes by the beginning of a long one."""
    try:
        configs.parse(content)
    except ValueError:
        return False
    return True


def _cell(path: str, number: int, source: str, gathered: Gathered) -> None:
    """A notebook's cell as Python: lines that only a notebook understands become `pass`, and shell lines are
    problems."""
    label = f"{path} cell {number}"
    if _SHELL_CELL.match(source):
        _problem(gathered, "process", path, f"cell {number} runs a program (a %% cell of another language)")
        return
    lines = []
    for position, line in enumerate(source.splitlines(), start=1):
        if _SHELL_LINE.match(line):
            _problem(gathered, "process", path, f"cell {number} line {position} runs a program (!)")
        match = _MAGIC_LINE.match(line) or _SHELL_LINE.match(line)
        lines.append(line[: len(line) - len(line.lstrip())] + "pass" if match else line)
    gathered.units.append(Unit(path=path, label=label, source="\n".join(lines).encode(), certain=True))


def _gguf(path: str, location: Path, gathered: Gathered) -> None:
    try:
        with location.open("rb") as stream:
            for key, text in gguf.chat_templates(stream):
                _template(gathered, path, f"{path} {key}", text)
    except ValueError as error:
        _problem(gathered, "unreadable-gguf", path, str(error))


def _template(gathered: Gathered, path: str, label: str, text: str) -> None:
    if len(text) > MAX_TEMPLATE_BYTES:
        _problem(gathered, "template", path, f"{label}: {len(text)} characters are too many for a chat template")
        return
    gathered.templates.append(Template(path=path, label=label, text=text))


def _is_compiled(head: bytes, path: str) -> bool:
    magic = int.from_bytes(head[:2], "little")
    flags = int.from_bytes(head[4:8], "little")
    return path.endswith((".pyc", ".pyo")) or (3000 <= magic < 4000 and head[2:4] == b"\r\n" and flags <= 3)


def _problem(gathered: Gathered, rule: Rule, path: str, detail: str) -> None:
    gathered.problems.append(Problem(rule=rule, path=path, detail=detail))
