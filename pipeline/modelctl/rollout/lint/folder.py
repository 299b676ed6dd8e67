"""A folder of manifests as documents with the file and line each begins at, and what is wrong with a document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from modelctl.documents import read_text
from modelctl.errors import InputError
from modelctl.rollout.lint.reading import documents

KUSTOMIZATION = "kustomization.yaml"
ENVIRONMENT = "environment.yaml"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One thing that is wrong."""

    rule: str
    """`lint.<rule>`, stable."""
    path: str
    line: int
    """Where the document begins, from 1."""
    message: str
    """What was found and what is wanted."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.message}"

    def as_json(self) -> Mapping[str, str | int]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """One YAML document of a folder."""

    path: str
    line: int
    body: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """The object's kind; "" when it has none."""
        return str(self.body.get("kind") or "")

    @property
    def name(self) -> str:
        """The object's name; "" when it has none."""
        return str(self.at("metadata", "name") or "")

    def at(self, *keys: str) -> Any:
        """The value at a path of keys, or None."""
        return dig(self.body, *keys)

    def fault(self, rule: str, message: str) -> Fault:
        """Something that is wrong with it."""
        named = f"{self.kind} {self.name}: " if self.kind else ""
        return Fault(rule=f"lint.{rule}", path=self.path, line=self.line, message=named + message)


@dataclass(frozen=True, kw_only=True)
class Folder:
    """The documents that Argo CD syncs together, and the faults of files that are none."""

    path: str
    manifests: tuple[Manifest, ...]
    faults: tuple[Fault, ...]

    def of_kind(self, *kinds: str) -> Iterator[Manifest]:
        """The documents of some kinds."""
        return (item for item in self.manifests if item.kind in kinds)

    def has(self, kind: str, name: str) -> bool:
        """Whether an object is among them."""
        return any(item.name == name for item in self.of_kind(kind))


def dig(value: Any, *keys: str) -> Any:
    """The value at a path of keys; None where something else is on the way."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def table(value: Any) -> Mapping[str, Any]:
    """A mapping; an empty one where something else stands."""
    return value if isinstance(value, Mapping) else {}


def whole(value: Any, otherwise: int) -> int:
    """A whole number, also one written as text; `otherwise` where there is none."""
    return int(value) if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()) else otherwise


def items(value: Any) -> Sequence[Any]:
    """A list's items; none where there is no list."""
    return value if isinstance(value, list | tuple) else ()


def folders(root: Path) -> tuple[Path, ...]:
    """Every folder at or below `root` that holds manifests. Raises `InputError` when there is none."""
    if not root.is_dir():
        raise InputError(f"{root}: not a folder", remedy="name gitops/, or a folder of manifests")
    found = {path.parent for path in root.rglob("*.yaml") if path.name != ENVIRONMENT}
    if not found:
        raise InputError(f"{root}: no manifest (*.yaml) in it", remedy="modelctl rollout writes them")
    return tuple(sorted(found))


def read_folder(folder: Path, *, base: Path) -> Folder:
    """Read one folder strictly: what is no YAML, has a key twice or is no object is a fault. Paths start at `base`."""
    manifests: list[Manifest] = []
    faults: list[Fault] = []
    for path in sorted(folder.glob("*.yaml")):
        if path.name == ENVIRONMENT:
            continue
        shown = path.relative_to(base).as_posix()
        try:
            text = read_text(path)
        except InputError as error:
            faults.append(Fault(rule="lint.unreadable", path=shown, line=1, message=error.message))
            continue
        try:
            bodies = list(documents(text, origin=shown))
        except InputError as error:
            faults.append(Fault(rule="lint.yaml", path=shown, line=1, message=error.message))
            continue
        for line, body in bodies:
            if body is None:
                continue
            if not isinstance(body, Mapping) or not body.get("kind") or not body.get("apiVersion"):
                message = "not an object of Kubernetes: it wants apiVersion and kind"
                faults.append(Fault(rule="lint.object", path=shown, line=line, message=message))
                continue
            manifests.append(Manifest(path=shown, line=line, body=body))
    shown = folder.relative_to(base).as_posix()
    return Folder(path=shown, manifests=tuple(manifests), faults=(*faults, *_resources(folder, manifests)))


def _resources(folder: Path, manifests: Sequence[Manifest]) -> Iterator[Fault]:
    """A kustomization lists what is there, and only that: a file it forgets is never applied."""
    for item in manifests:
        if item.kind != "Kustomization":
            continue
        listed = {str(name) for name in items(item.body.get("resources"))}
        there = {path.name for path in folder.glob("*.yaml")} - {KUSTOMIZATION, ENVIRONMENT}
        used = listed | {str(name) for name in items(item.body.get("configurations"))}
        for name in sorted(name for name in listed if "://" not in name and not (folder / name).exists()):
            yield item.fault("resource-missing", f"lists {name}, which is not there")
        for name in sorted(there - used):
            if not _is_patch(item.body, name):
                yield item.fault("resource-forgotten", f"does not list {name}, which is never applied")


def _is_patch(kustomization: Mapping[str, Any], name: str) -> bool:
    return any(dig(patch, "path") == name for patch in items(kustomization.get("patches")))
