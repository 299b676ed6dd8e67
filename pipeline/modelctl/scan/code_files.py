"""Goes through a tree and gathers all that may be code: Python by name and by content, notebook cells, templates,
hooks, credentials, and files that make other programs run something.

Nothing is parsed as Python or jinja here; that is the child's work. Each file is read once. Hidden folders and odd
extensions make no difference, and small members of archives count as files.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal

from modelctl.model.content import WINDOW_BYTES, ContentKind, identify, identify_bytes
from modelctl.model.tree import FileEntry, Tree
from modelctl.scan import configs, gguf, side_files
from modelctl.scan.credentials import credentials
from modelctl.scan.hooks import hooks
from modelctl.scan.notebooks import notebook_cells
from modelctl.scan.packed import UnopenedError, small_members

Rule = Literal[
    "auto-map", "custom-pipeline", "trust-remote-code", "hub-kernel", "unreadable-json", "unreadable-python",
    "unreadable-gguf", "template", "secret", "native-binary", "compiled-python", "yaml-object", "process",
    "dynamic-code", "requirements",
]  # fmt: skip

MAX_PYTHON_BYTES = 4 << 20
"""Longest source, and longest text of another name that is tried as Python."""
MAX_SOURCE_BYTES = 512 << 20
"""Of all texts of one tree that may be Python: they are held in memory."""
MAX_TEMPLATE_BYTES = 1 << 20
CUSTOM_GENERATE = "custom_generate/generate.py"
_PYTHON_SUFFIXES = (".py", ".pyw", ".pyi", ".pyx", ".pxd")
_TEMPLATE_SUFFIXES = (".jinja", ".jinja2", ".j2")
_YAML_SUFFIXES = (".yaml", ".yml")
_SHEBANG = re.compile(rb"#![^\n]*python")
_CODE_HINT = re.compile(rb"\b(import|exec|eval|lambda|def|class)\b|__\w+__|\w\(")
_PYTHON_LINE = re.compile(
    rb"^[ \t]*(?:import (?:os|sys|subprocess|socket|ctypes|pty)\b|from (?:os|subprocess|ctypes|importlib) import "
    rb"|(?:os\.system|exec|eval|__import__|subprocess\.\w+) ?\()",
    re.MULTILINE,
)
"""Lines that a text too long to be parsed must not have."""
_MACH_O = (b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xfe\xed\xfa\xcf", b"\xfe\xed\xfa\xce")
_NATIVE_SUFFIXES = (".so", ".dll", ".dylib", ".pyd", ".exe")
_YAML_OBJECT = re.compile(
    rb"!!python/|tag:yaml\.org,2002:python/|![ \t]*<[^>\n]*python/|!(?:new|name|apply|module):[\w.]"
)
"""Tags that make objects: PyYAML's, also spelt out, and HyperPyYAML's."""
_TAG_PREFIX = re.compile(rb"^%TAG[ \t]", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Unit:
    """Source to be parsed as Python. `certain`: its name or place says that it is; else its content has to."""

    path: str
    label: str
    """The path, for a notebook with the cell, for an archive with the member."""
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
    """A reason to refuse that needs no parser of code. `own`: the code is the repository's, and examined."""

    rule: Rule
    path: str
    detail: str
    own: bool = False


@dataclass(kw_only=True)
class Gathered:
    """Everything in a tree that may be code."""

    files: frozenset[str] = frozenset()
    """The paths of the whole tree."""
    units: list[Unit] = field(default_factory=list)
    templates: list[Template] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    source_bytes: int = 0
    """Of all units, and of those that were too many."""
    unread: list[str] = field(default_factory=list)
    """What was not looked at whole, and why, one sentence each."""


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Where a text lies: a file, or a member of an archive (`model.zip!setup.py`)."""

    path: str
    label: str

    @property
    def name(self) -> str:
        """The path of the text itself, in the tree or in its archive."""
        return self.label.rpartition("!")[2]

    @property
    def suffix(self) -> str:
        """The extension in small letters."""
        return PurePosixPath(self.name).suffix.lower()


def gather(tree: Tree, *, advance: Callable[[float], None] = lambda _: None) -> Gathered:
    """Look at every file of the tree. Raises `OSError` when one can't be read."""
    gathered = Gathered(files=frozenset(entry.path for entry in tree.files))
    for entry in tree.files:
        _file(entry, tree.location(entry.path), gathered)
        advance(entry.size_bytes)
    if CUSTOM_GENERATE in gathered.files:
        detail = "takes the place of generate() when the model is loaded with leave to run its code"
        gathered.problems.append(Problem(rule="custom-pipeline", path=CUSTOM_GENERATE, detail=detail, own=True))
    return gathered


def _file(entry: FileEntry, location: Path, gathered: Gathered) -> None:
    place = _Place(path=entry.path, label=entry.path)
    kind = identify(location)
    large = entry.size_bytes > configs.MAX_JSON_BYTES
    with location.open("rb") as stream:
        head = stream.read(512)
        content = b"" if large else head + stream.read()
    if kind is ContentKind.GGUF:
        _gguf(place, location, gathered)
    if not large:
        _content(place, kind, content, gathered)
    else:
        _binary(place, kind, head, gathered)
        if kind not in (ContentKind.SAFETENSORS, ContentKind.GGUF):
            gathered.unread.append(f"{entry.path}: too large for text, only its first bytes were looked at")
        if place.suffix in (".json", ".ipynb", *_PYTHON_SUFFIXES):
            rule: Rule = "unreadable-python" if place.suffix in _PYTHON_SUFFIXES else "unreadable-json"
            _problem(gathered, rule, place, f"{entry.size_bytes} bytes are too many to be examined")
    if kind not in (ContentKind.SAFETENSORS, ContentKind.GGUF, ContentKind.JSON):
        try:
            for name, member in small_members(location):
                inner = _Place(path=entry.path, label=f"{entry.path}!{name}")
                _content(inner, identify_bytes(member[:WINDOW_BYTES], size=len(member)), member, gathered)
        except UnopenedError as error:
            gathered.unread.append(f"{entry.path}: {error}")


def _content(place: _Place, kind: ContentKind, content: bytes, gathered: Gathered) -> None:
    _binary(place, kind, content[:512], gathered)
    script = bool(_SHEBANG.match(content))
    for what, line in credentials(content):
        _problem(gathered, "secret", place, f"line {line} holds {what}")
    is_shell = kind is ContentKind.SHELL and not script
    for side in side_files.look(place.name, content, is_shell=is_shell):
        if side.rule is None:
            gathered.warnings.append(f"{place.label}: {side.detail}")
        else:
            _problem(gathered, side.rule, place, side.detail)
    if place.suffix in _PYTHON_SUFFIXES or script:
        _python(place, content, gathered)
    elif place.suffix in _TEMPLATE_SUFFIXES or _is_named_template(place):
        _template(gathered, place, place.label, content.decode("utf-8", "backslashreplace"))
    elif place.suffix in _YAML_SUFFIXES:
        _yaml(place, content, gathered)
        _guess(place, content, gathered)
    elif place.suffix in (".json", ".ipynb", ".lock") or (kind is ContentKind.JSON and _is_json(content)):
        _json(place, content, gathered)
    else:
        _guess(place, content, gathered)


def _binary(place: _Place, kind: ContentKind, head: bytes, gathered: Gathered) -> None:
    machine = kind is ContentKind.EXECUTABLE or head.startswith((*_MACH_O, b"\x7fELF"))
    if machine or (place.suffix in _NATIVE_SUFFIXES and b"\0" in head):
        _problem(gathered, "native-binary", place, "a program or library in machine code")
    if _is_compiled(head, place.name):
        _problem(gathered, "compiled-python", place, "compiled Python, which can't be examined")


def _python(place: _Place, content: bytes, gathered: Gathered) -> None:
    if len(content) > MAX_PYTHON_BYTES:
        _problem(gathered, "unreadable-python", place, f"{len(content)} bytes of Python are too many to be examined")
        return
    _unit(gathered, place, place.label, content, certain=True)


def _guess(place: _Place, content: bytes, gathered: Gathered) -> None:
    """A text of any other name is code when it parses as Python and does something."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        content = content.decode("utf-16", "replace").encode()
    elif content.count(b"\0") > 1 + len(content) // 100:
        return
    content = content.replace(b"\0", b"")  # some versions of Python read on after one
    if not _CODE_HINT.search(content):
        return
    if len(content) <= MAX_PYTHON_BYTES:
        _unit(gathered, place, place.label, content, certain=False)
    elif match := _PYTHON_LINE.search(content):
        line = content.count(b"\n", 0, match.start()) + 1
        detail = f"{len(content)} bytes of text with Python in line {line} are too many to be examined"
        _problem(gathered, "unreadable-python", place, detail)


def _json(place: _Place, content: bytes, gathered: Gathered) -> None:
    try:
        document = configs.parse(content)
    except ValueError as error:
        if place.suffix == ".ipynb" or configs.may_hold_hooks(content):
            detail = f"it does not parse ({str(error)[:120]}) and may load code"
            _problem(gathered, "unreadable-json", place, detail)
        _guess(place, content, gathered)
        return
    _document(place, document, gathered)


def _yaml(place: _Place, content: bytes, gathered: Gathered) -> None:
    if _YAML_OBJECT.search(content) or (_TAG_PREFIX.search(content) and b"python" in content):
        _problem(gathered, "yaml-object", place, "YAML that builds Python objects when it is loaded (!!python/, !new:)")
    if not configs.may_hold_hooks(content):
        return
    try:
        _document(place, configs.parse_yaml(content), gathered)
    except ValueError as error:
        _problem(gathered, "unreadable-json", place, f"it does not parse ({str(error)[:120]}) and may load code")


def _document(place: _Place, document: object, gathered: Gathered) -> None:
    for hook in hooks(document, path=place.name, files=gathered.files):
        detail = f"{place.label}: {hook.detail}"
        gathered.problems.append(Problem(rule=hook.rule, path=place.path, detail=detail, own=hook.own))
    for name, text in configs.templates(document):
        _template(gathered, place, f"{place.label} {name}", text)
    for cell in notebook_cells(document):
        label = f"{place.label} cell {cell.number}"
        for words in cell.programs:
            _problem(gathered, "process", place, words)
        _unit(gathered, place, label, cell.source.encode("utf-8", "replace"), certain=True)


def _unit(gathered: Gathered, place: _Place, label: str, source: bytes, *, certain: bool) -> None:
    gathered.source_bytes += len(source)
    if gathered.source_bytes > MAX_SOURCE_BYTES:
        detail = f"{label}: with it there are more than {MAX_SOURCE_BYTES >> 20} MiB of text that may be Python"
        _problem(gathered, "unreadable-python", place, detail)
        return
    gathered.units.append(Unit(path=place.path, label=label, source=source, certain=certain))


def _is_json(content: bytes) -> bool:
    """Whether all of a text is JSON: `identify` goes by the beginning of a long one."""
    try:
        configs.parse(content)
    except ValueError:
        return False
    return True


def _is_named_template(place: _Place) -> bool:
    stem = PurePosixPath(place.name).name.lower()
    return stem.startswith("chat_template") and place.suffix in ("", ".txt", ".tmpl", ".tpl")


def _gguf(place: _Place, location: Path, gathered: Gathered) -> None:
    try:
        with location.open("rb") as stream:
            for key, text in gguf.chat_templates(stream):
                _template(gathered, place, f"{place.label} {key}", text)
    except ValueError as error:
        _problem(gathered, "unreadable-gguf", place, str(error))


def _template(gathered: Gathered, place: _Place, label: str, text: str) -> None:
    if len(text) > MAX_TEMPLATE_BYTES:
        _problem(gathered, "template", place, f"{label}: {len(text)} characters are too many for a chat template")
        return
    gathered.templates.append(Template(path=place.path, label=label, text=text))


def _is_compiled(head: bytes, path: str) -> bool:
    magic = int.from_bytes(head[:2], "little")
    flags = int.from_bytes(head[4:8], "little")
    return path.endswith((".pyc", ".pyo")) or (3000 <= magic < 4000 and head[2:4] == b"\r\n" and flags <= 3)


def _problem(gathered: Gathered, rule: Rule, place: _Place, detail: str) -> None:
    text = detail if detail.startswith(place.label) else f"{place.label}: {detail}"
    gathered.problems.append(Problem(rule=rule, path=place.path, detail=text))
