"""Goes through a tree and gathers all that may be code: Python by name and by content, notebook cells, templates,
hooks, credentials, and files that make other programs run something.

Nothing is parsed as Python or jinja here; that is the child's work. Each file is read once. Hidden folders and odd
extensions make no difference, and small members of archives count as files.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from modelctl.model.content import WINDOW_BYTES, ContentKind, identify, identify_bytes
from modelctl.model.tree import FileEntry, Tree
from modelctl.scan import configs, gguf, side_files
from modelctl.scan.credentials import credentials
from modelctl.scan.gathered import Gathered, Place, Rule
from modelctl.scan.hooks import hooks
from modelctl.scan.notebooks import notebook_cells
from modelctl.scan.packed import MAX_MEMBER_BYTES, small_members
from modelctl.scan.programs import MACHINE_CODE

MAX_PYTHON_BYTES = 4 << 20
"""Longest source, and longest text of another name that is tried as Python."""
MAX_REASONS_TOLD = 20
"""Of what one archive has that could not be looked at."""
CUSTOM_GENERATE = "custom_generate/generate.py"
_PYTHON_SUFFIXES = (".py", ".pyw", ".pyi", ".pyx", ".pxd")
_TEMPLATE_SUFFIXES = (".jinja", ".jinja2", ".j2")
_JSON_SUFFIXES = (".json", ".ipynb", ".lock")
_YAML_SUFFIXES = (".yaml", ".yml")
_SHEBANG = re.compile(rb"#![^\n]*python")
_CODE_HINT = re.compile(rb"\b(import|exec|eval|lambda|def|class)\b|__\w+__|\w\(")
_PYTHON_LINE = re.compile(
    rb"^[ \t]*(?:import (?:os|sys|subprocess|socket|ctypes|pty)\b|from (?:os|subprocess|ctypes|importlib) import "
    rb"|(?:os\.system|exec|eval|__import__|subprocess\.\w+) ?\()",
    re.MULTILINE,
)
"""Lines that a text too long to be parsed must not have."""
_NATIVE_SUFFIXES = (".so", ".dll", ".dylib", ".pyd", ".exe")
_YAML_OBJECT = re.compile(
    rb"!!python/|tag:yaml\.org,2002:python/|![ \t]*<[^>\n]*python/|!(?:new|name|apply|module):[\w.]"
)
"""Tags that make objects: PyYAML's, also spelt out, and HyperPyYAML's."""
_TAG_PREFIX = re.compile(rb"^%TAG[ \t]", re.MULTILINE)


def gather(tree: Tree, *, scratch: Path, advance: Callable[[float], None] = lambda _: None) -> Gathered:
    """Look at every file of the tree. Raises `OSError` when one can't be read, `CannotDecideError` when `scratch` is
    full."""
    gathered = Gathered(files=frozenset(entry.path for entry in tree.files))
    for entry in tree.files:
        _file(entry, tree.location(entry.path), gathered)
        _members(entry.path, tree.location(entry.path), scratch, gathered)
        advance(entry.size_bytes)
    if CUSTOM_GENERATE in gathered.files:
        detail = "takes the place of generate() when the model is loaded with leave to run its code"
        gathered.problem("custom-pipeline", Place(path=CUSTOM_GENERATE, label=CUSTOM_GENERATE), detail, own=True)
    return gathered


def _file(entry: FileEntry, location: Path, gathered: Gathered) -> None:
    place = Place(path=entry.path, label=entry.path)
    kind = identify(location)
    if kind is ContentKind.GGUF:
        _gguf(place, location, gathered)
    with location.open("rb") as stream:
        head = stream.read(512)
        if entry.size_bytes <= configs.MAX_JSON_BYTES:
            _content(place, kind, head + stream.read(), gathered)
            return
    _binary(place, kind, head, gathered)
    if kind not in (ContentKind.SAFETENSORS, ContentKind.GGUF):
        gathered.unread.append(f"{entry.path}: too large for text, only its first bytes were looked at")
    if rule := _rule_of_unread(place, script=bool(_SHEBANG.match(head))):
        gathered.problem(rule, place, f"{entry.size_bytes} bytes are too many to be examined")


def _rule_of_unread(place: Place, *, script: bool) -> Rule | None:
    """What speaks against a file that was not examined, if its name or its first line says what reads it."""
    if place.suffix in _PYTHON_SUFFIXES or script:
        return "unreadable-python"
    if _is_template(place):
        return "template"
    return "unreadable-json" if place.suffix in (*_JSON_SUFFIXES, *_YAML_SUFFIXES) else None


def _members(path: str, location: Path, scratch: Path, gathered: Gathered) -> None:
    unread: list[str] = []
    large = 0
    for name, member in small_members(location, scratch=scratch, unread=unread.append):
        inner = Place(path=path, label=f"{path}!{name}")
        if member is not None:
            _content(inner, identify_bytes(member[:WINDOW_BYTES], size=len(member)), member, gathered)
        elif rule := _rule_of_unread(inner, script=False):
            gathered.problem(rule, inner, f"over {MAX_MEMBER_BYTES >> 20} MiB are too many to be examined")
        else:
            large += 1
    if len(unread) > MAX_REASONS_TOLD:
        unread[MAX_REASONS_TOLD:] = [f"and {len(unread) - MAX_REASONS_TOLD} more reasons"]
    if large:
        unread.append(f"members of over {MAX_MEMBER_BYTES >> 20} MiB that were not looked at for code: {large}")
    gathered.unread += [f"{path}: {words}" for words in unread]


def _content(place: Place, kind: ContentKind, content: bytes, gathered: Gathered) -> None:
    _binary(place, kind, content[:512], gathered)
    script = bool(_SHEBANG.match(content))
    for what, line in credentials(content):
        gathered.problem("secret", place, f"line {line} holds {what}")
    is_shell = kind is ContentKind.SHELL and not script
    for side in side_files.look(place.name, content, is_shell=is_shell):
        if side.rule is None:
            gathered.warnings.append(f"{place.label}: {side.detail}")
        else:
            gathered.problem(side.rule, place, side.detail)
    if place.suffix in _PYTHON_SUFFIXES or script:
        _python(place, content, gathered)
    elif _is_template(place):
        gathered.template(place, place.label, content.decode("utf-8", "backslashreplace"))
    elif place.suffix in _YAML_SUFFIXES:
        _yaml(place, content, gathered)
        _guess(place, content, gathered)
    elif place.suffix in _JSON_SUFFIXES or (kind is ContentKind.JSON and _is_json(content)):
        _json(place, content, gathered)
    else:
        _guess(place, content, gathered)


def _binary(place: Place, kind: ContentKind, head: bytes, gathered: Gathered) -> None:
    machine = kind is ContentKind.EXECUTABLE or head.startswith(MACHINE_CODE)
    if machine or (place.suffix in _NATIVE_SUFFIXES and b"\0" in head):
        gathered.problem("native-binary", place, "a program or library in machine code")
    if _is_compiled(head, place.name):
        gathered.problem("compiled-python", place, "compiled Python, which can't be examined")


def _python(place: Place, content: bytes, gathered: Gathered) -> None:
    if len(content) > MAX_PYTHON_BYTES:
        gathered.problem("unreadable-python", place, f"{len(content)} bytes of Python are too many to be examined")
        return
    gathered.unit(place, place.label, content, certain=True)


def _guess(place: Place, content: bytes, gathered: Gathered) -> None:
    """A text of any other name is code when it parses as Python and does something."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        content = content.decode("utf-16", "replace").encode()
    elif content.count(b"\0") > 1 + len(content) // 100:
        return
    content = content.replace(b"\0", b"")  # some versions of Python read on after one
    if not _CODE_HINT.search(content):
        return
    if len(content) <= MAX_PYTHON_BYTES:
        gathered.unit(place, place.label, content, certain=False)
    elif match := _PYTHON_LINE.search(content):
        line = content.count(b"\n", 0, match.start()) + 1
        detail = f"{len(content)} bytes of text with Python in line {line} are too many to be examined"
        gathered.problem("unreadable-python", place, detail)


def _json(place: Place, content: bytes, gathered: Gathered) -> None:
    try:
        document = configs.parse(content)
    except ValueError as error:
        if place.suffix == ".ipynb" or configs.may_hold_hooks(content):
            detail = f"it does not parse ({str(error)[:120]}) and may load code"
            gathered.problem("unreadable-json", place, detail)
        _guess(place, content, gathered)
        return
    _document(place, document, gathered)


def _yaml(place: Place, content: bytes, gathered: Gathered) -> None:
    if _YAML_OBJECT.search(content) or (_TAG_PREFIX.search(content) and b"python" in content):
        gathered.problem("yaml-object", place, "YAML that builds Python objects when it is loaded (!!python/, !new:)")
    if not configs.may_hold_hooks(content):
        return
    try:
        _document(place, configs.parse_yaml(content), gathered)
    except ValueError as error:
        gathered.problem("unreadable-json", place, f"it does not parse ({str(error)[:120]}) and may load code")


def _document(place: Place, document: object, gathered: Gathered) -> None:
    for hook in hooks(document, path=place.name, files=gathered.files):
        gathered.problem(hook.rule, place, hook.detail, own=hook.own)
    for name, text in configs.templates(document):
        gathered.template(place, f"{place.label} {name}", text)
    for cell in notebook_cells(document):
        label = f"{place.label} cell {cell.number}"
        for words in cell.programs:
            gathered.problem("process", place, words)
        gathered.unit(place, label, cell.source.encode("utf-8", "replace"), certain=True)


def _is_json(content: bytes) -> bool:
    """Whether all of a text is JSON: `identify` goes by the beginning of a long one."""
    try:
        configs.parse(content)
    except ValueError:
        return False
    return True


def _is_template(place: Place) -> bool:
    stem = PurePosixPath(place.name).name.lower()
    named = stem.startswith("chat_template") and place.suffix in ("", ".txt", ".tmpl", ".tpl")
    return named or place.suffix in _TEMPLATE_SUFFIXES


def _gguf(place: Place, location: Path, gathered: Gathered) -> None:
    try:
        with location.open("rb") as stream:
            for key, text in gguf.chat_templates(stream):
                gathered.template(place, f"{place.label} {key}", text)
    except ValueError as error:
        gathered.problem("unreadable-gguf", place, str(error))


def _is_compiled(head: bytes, path: str) -> bool:
    magic = int.from_bytes(head[:2], "little")
    flags = int.from_bytes(head[4:8], "little")
    return path.endswith((".pyc", ".pyo")) or (3000 <= magic < 4000 and head[2:4] == b"\r\n" and flags <= 3)
