"""Where chat templates stand in a repository, whether the places agree, and what a template reaches for.

Parsing happens in a bounded fork: Jinja works out constants when it compiles, so a template can exhaust memory before
it is rendered.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from modelctl.model.strict_json import Json
from modelctl.scan.gguf import chat_templates
from modelctl.tokenization.reading import MalformedError, json_object, shown_plain, text
from modelctl.tokenization.report import Ledger

DEFAULT = "default"
EXTRA_TEMPLATES = "additional_chat_templates"
"""The folder of named templates beside chat_template.jinja."""
SUFFIXES = (".jinja", ".jinja2", ".j2")
_JSON_NAMES = ("tokenizer_config.json", "chat_template.json", "processor_config.json")
_GGUF_KEY = "tokenizer.chat_template"
_FORMAT_ATTRIBUTE = re.compile(r"\{[^{}]*[.\[]\s*_")


@dataclass(frozen=True, kw_only=True)
class Template:
    """One template. `name` is "default" or what it is called; `path` is the file that holds it."""

    name: str
    path: str
    source: str

    @property
    def folder(self) -> str:
        """The folder whose tokenizer it belongs to ("" for the root)."""
        folder = self.path.rpartition("/")[0]
        return folder.removesuffix(EXTRA_TEMPLATES).rstrip("/")

    @property
    def canonical(self) -> str:
        """The source with what Jinja itself ignores taken away: kinds of line ends and one final line end."""
        return self.source.replace("\r\n", "\n").removesuffix("\n")


def find_templates(folder: Path, files: Sequence[str], ledger: Ledger) -> list[Template]:
    """Every chat template of the repository, subfolders included; a file that cannot be read is a finding."""
    found: list[Template] = []
    for path in files:
        name = path.rpartition("/")[2]
        try:
            if name in _JSON_NAMES:
                found += _of_json(path, json_object(folder, path).get("chat_template"))
            elif name.endswith(".gguf"):
                found += _of_gguf(folder / path, path)
            elif name.endswith(SUFFIXES):
                parent = path.rpartition("/")[0].rpartition("/")[2]
                stem = name.rpartition(".")[0]
                title = stem if parent == EXTRA_TEMPLATES else DEFAULT if name == "chat_template.jinja" else path
                found.append(Template(name=title, path=path, source=text(folder / path)))
        except MalformedError as error:
            ledger.problem(
                "unreadable", shown_plain(str(error)), remedy="take the file from the upstream repository", path=path
            )
    return found


def check_places(templates: Sequence[Template], ledger: Ledger) -> None:
    """Templates of one name in one folder are the same: programs differ in which place they read."""
    groups: dict[tuple[str, str], list[Template]] = defaultdict(list)
    for template in templates:
        groups[template.folder, template.name].append(template)
    for (_, name), members in groups.items():
        first = members[0]
        for other in members[1:]:
            if other.canonical != first.canonical:
                ledger.problem(
                    "template-conflict",
                    f"{first.path} and {other.path} hold different chat templates ('{shown_plain(name)}'): "
                    + _first_difference(first.canonical, other.canonical),
                    remedy="keep the template in one place, chat_template.jinja, or make them equal",
                    path=other.path,
                )


def suspicious(source: str) -> list[str]:
    """What a template reaches for that a chat template never needs, one phrase each. Call it in a bounded fork.

    Attributes and keys that begin with an underscore, worked-out ones included, the `attr` filter, format strings that
    reach for attributes, and other templates. Raises `jinja2.TemplateSyntaxError`, `RecursionError`.
    """
    from jinja2 import nodes

    from modelctl.tokenization.rendering import environment

    made = environment()
    tree = made.parse(source)
    made.compile(made.parse(source))  # names unknown filters, and works out constants as every program will
    found: list[str] = []
    for node in tree.find_all(nodes.Node):
        match node:
            case nodes.Getattr(attr=name) if name.startswith("_"):
                found.append(f"attribute {name} in line {node.lineno}")
            case nodes.Getitem(arg=argument):
                key = _constant(argument)
                if isinstance(key, str) and key.startswith("_"):
                    found.append(f"key {key} in line {node.lineno}")
            case nodes.Filter(name="attr" | "map" | "selectattr" | "rejectattr" as name) if (
                name == "attr" or _underscored(node)
            ):
                found.append(f"filter {name} in line {node.lineno}")
            case nodes.Include() | nodes.Import() | nodes.FromImport() | nodes.Extends():
                found.append(f"another template in line {node.lineno}")
            case nodes.Const(value=str() as value) if _FORMAT_ATTRIBUTE.search(value):
                found.append(f"a format string that reaches for attributes in line {node.lineno}")
            case _:
                pass
    return list(dict.fromkeys(shown_plain(phrase) for phrase in found))


def _underscored(node: object) -> bool:
    """Whether an argument of a filter names an attribute that begins with an underscore (also behind dots)."""
    arguments = [*getattr(node, "args", ()), *(pair.value for pair in getattr(node, "kwargs", ()))]
    words = [_constant(argument) for argument in arguments]
    return any(isinstance(word, str) and re.search(r"(^|\.)_", word) for word in words)


def _constant(node: object) -> object:
    from jinja2 import nodes

    if not isinstance(node, nodes.Expr):
        return None
    try:
        return node.as_const()
    except nodes.Impossible:
        return None


def _of_json(path: str, value: Json) -> Iterator[Template]:
    if value is None:
        return
    if isinstance(value, str):
        yield Template(name=DEFAULT, path=path, source=value)
    elif isinstance(value, Mapping):
        for name, source in value.items():
            yield _named(path, name, source)
    elif isinstance(value, list):
        for row in value:
            if not isinstance(row, Mapping):
                raise MalformedError(f"{path}: chat_template: wanted a list of objects with 'name' and 'template'")
            yield _named(path, row.get("name"), row.get("template"))
    else:
        raise MalformedError(f"{path}: chat_template: wanted a text, or a list of named ones")


def _of_gguf(file: Path, path: str) -> Iterator[Template]:
    try:
        with file.open("rb") as stream:
            for key, source in chat_templates(stream):
                name = key.removeprefix(_GGUF_KEY).removeprefix(".")
                yield Template(name=name or DEFAULT, path=path, source=source)
    except (OSError, ValueError) as error:
        raise MalformedError(f"{path}: {error}") from error


def _named(path: str, name: Json, source: Json) -> Template:
    if not isinstance(name, str) or not isinstance(source, str):
        raise MalformedError(f"{path}: chat_template: wanted a name and a template, both texts")
    return Template(name=name, path=path, source=source)


def _first_difference(first: str, other: str) -> str:
    for number, (left, right) in enumerate(zip(first.split("\n"), other.split("\n"), strict=False), start=1):
        if left != right:
            at = next(
                (i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
            )
            begin = max(0, at - 20)
            one, two = left[begin : begin + 60], right[begin : begin + 60]
            return f"line {number} has {one!r} in the one and {two!r} in the other"
    return "one is longer than the other"
