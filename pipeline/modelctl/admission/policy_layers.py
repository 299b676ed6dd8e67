"""A policy and those that it extends, read one over the other: every value knows the file and the line it stands in.

Sections (mappings down to a check's) are merged key by key, `rules` by their id; a value, a list and a mapping that is
one value (`calibration`, `options`) replaces what was there. A description is of its own file and is not inherited.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelctl.admission.policy_files import POLICIES, FolderFiles, RuleFiles
from modelctl.documents import nearest, parse_yaml, read_text
from modelctl.errors import InputError

MAX_LAYERS = 8
BUILT_IN = "modelctl:"
"""`extends: modelctl:production` is the built-in policy, also from a repository with a `production` of its own."""
SECTION_DEPTH = 3
_NAME = re.compile(rf"({BUILT_IN})?[A-Za-z0-9][A-Za-z0-9._-]*")

Key = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ValueOrigin:
    """Where a value stands."""

    file: str
    """As errors name it: a path, and the commit where one was asked for."""
    line: int


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One policy file."""

    name: str
    """As it was named: `production`, `modelctl:production`, a file."""
    path: Path
    """Its own name; of a file in a commit the place where the working tree would have it."""
    place: str
    text: str
    document: Mapping[str, Any]

    @property
    def extends(self) -> str | None:
        """The policy that it is written over."""
        spec = self.document.get("spec")
        return spec.get("extends") if isinstance(spec, dict) else None


@dataclass(frozen=True, kw_only=True)
class Merged:
    """The layers as one document, `extends` left out."""

    document: Mapping[str, Any]
    origins: Mapping[Key, ValueOrigin]
    """Of every value and every section's key that a file writes."""


def read_layer(name: str, files: RuleFiles, *, named_by: str | None = None) -> Layer:
    """The policy file of a name, or a file that was named. Raises `InputError`, which says what there is."""
    if named_by is None and ("/" in name or name.endswith((".yaml", ".yml"))):
        return _named_file(name, files)
    if not _NAME.fullmatch(name):
        raise InputError(f"{named_by or 'policy'}: '{name}' is no policy's name", remedy="write for example production")
    plain = name.removeprefix(BUILT_IN)
    own = f"{POLICIES}/{plain}.yaml"
    if plain == name and (text := files.read(own)) is not None:
        return _layer(name, files.root / own, files.place(own), text)
    if files.built_in is not None and (built_in := files.built_in / f"{plain}.yaml").is_file():
        return _layer(name, built_in, str(built_in), read_text(built_in))
    known = known_policies(files)
    close = nearest(name, known)
    where = f"{named_by}: extends: no" if named_by else "no"
    raise InputError(
        f"{where} policy '{name}' in {files.place(POLICIES)}" + (f", did you mean '{close}'?" if close else ""),
        remedy=f"use one of: {', '.join(known)}; or name a file",
    )


def known_policies(files: RuleFiles) -> list[str]:
    """The names of all policies there are."""
    own = [Path(path).stem for path in files.listing(POLICIES) if path.endswith(".yaml")]
    built_in = [path.stem for path in files.built_in.glob("*.yaml")] if files.built_in is not None else []
    return sorted({*own, *built_in})


def read_layers(name: str, files: RuleFiles) -> tuple[Layer, ...]:
    """The policy and all that it extends, itself first. Raises `InputError` for a circle, a missing one, too many."""
    layers = [read_layer(name, files)]
    while (parent := layers[-1].extends) is not None:
        child = layers[-1]
        if not isinstance(parent, str):
            raise InputError(f"{child.place}: 'spec.extends': found {parent!r}, wanted one policy's name")
        layer = read_layer(parent, files, named_by=child.place)
        if any(layer.place == known.place for known in layers):
            way = " → ".join([*(known.name for known in layers), parent])
            hint = f"; the one that comes with modelctl is '{BUILT_IN}{parent}'" if layer.place == child.place else ""
            raise InputError(f"{child.place}: extends goes in a circle: {way}", remedy=f"end the circle{hint}")
        layers.append(layer)
        if len(layers) > MAX_LAYERS:
            raise InputError(
                f"{layers[0].place}: extends more than {MAX_LAYERS - 1} policies in a row: "
                f"{' → '.join(known.name for known in layers)}",
                remedy="write a policy that a person can follow",
            )
    return tuple(layers)


def merge(layers: Sequence[Layer]) -> Merged:
    """The layers as one document; the first one wins."""
    document: dict[str, Any] = {}
    origins: dict[Key, ValueOrigin] = {}
    for number, layer in enumerate(reversed(layers), start=1):
        own = _without(layer.document, inherited=number < len(layers))
        _lay_over(document, own, (), origins, layer, _lines(layer))
    return Merged(document=document, origins=origins)


def _lay_over(
    under: dict[str, Any],
    over: Mapping[str, Any],
    at: Key,
    origins: dict[Key, ValueOrigin],
    layer: Layer,
    lines: Mapping[Key, int],
) -> None:
    for name, value in over.items():
        key = (*at, str(name))
        if isinstance(value, dict) and len(key) <= SECTION_DEPTH:
            section = under.setdefault(name, {})
            if isinstance(section, dict):
                _lay_over(section, value, key, origins, layer, lines)
                continue
        if key == ("spec", "rules") and isinstance(value, list) and isinstance(under.get(name), list):
            under[name] = _by_id(under[name], value)
        else:
            under[name] = value
        origins[key] = ValueOrigin(file=layer.place, line=lines.get(key, 1))


def _by_id(under: Sequence[Any], over: Sequence[Any]) -> list[Any]:
    """Rules of the same id are replaced where they stand, new ones come behind."""
    own = {rule.get("id"): rule for rule in over if isinstance(rule, dict)}
    kept = [own.get(rule.get("id"), rule) if isinstance(rule, dict) else rule for rule in under]
    there = [rule.get("id") for rule in under if isinstance(rule, dict)]
    return [*kept, *(rule for rule in over if not isinstance(rule, dict) or rule.get("id") not in there)]


def _without(document: Mapping[str, Any], *, inherited: bool) -> dict[str, Any]:
    """What a layer brings: never `extends`; as an inherited one neither its name nor its description."""
    left_out = {"extends", "description"} if inherited else {"extends"}
    spec = document.get("spec")
    own = {name: value for name, value in document.items() if not (inherited and name == "metadata")}
    if isinstance(spec, dict):
        own["spec"] = {name: value for name, value in spec.items() if name not in left_out}
    return own


def _lines(layer: Layer) -> dict[Key, int]:
    """The line of every key, counted from 1. The text has been parsed before, so it holds no aliases and no depths."""
    from ruamel.yaml import YAML
    from ruamel.yaml.nodes import MappingNode, Node

    found: dict[Key, int] = {}

    def walk(node: Node, at: Key) -> None:
        if isinstance(node, MappingNode):
            for name, value in node.value:
                key = (*at, str(name.value))
                found[key] = name.start_mark.line + 1
                walk(value, key)

    walk(YAML(typ="safe", pure=True).compose(layer.text), ())
    return found


def _named_file(name: str, files: RuleFiles) -> Layer:
    """A file as the shell knows it, else from the repository's root; of a commit only from the root."""
    in_folder = isinstance(files, FolderFiles)
    text = None if in_folder and Path(name).exists() else files.read(name)
    if text is not None:
        return _layer(name, files.root / name, files.place(name), text)
    if not in_folder:
        raise InputError(f"no policy file {files.place(name)}", remedy="name it from the repository's root")
    return _layer(name, Path(name), name, read_text(Path(name)))


def _layer(name: str, path: Path, place: str, text: str) -> Layer:
    document = parse_yaml(text, origin=place)
    if not isinstance(document, dict):
        found = "an empty file" if document is None else f"a {type(document).__name__}"
        raise InputError(f"{place}: found {found}, wanted a mapping of keys to values")
    return Layer(name=name, path=path, place=place, text=text, document=document)
