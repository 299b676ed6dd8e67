"""YAML as Kubernetes reads it, by libyaml: thousands of manifests in seconds, and strict where a cluster is not.

A key that stands twice, an alias and nesting without end are errors: the first hides what was meant, the others occupy
a reader.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from modelctl.errors import InputError

MAX_NESTING = 64
_TEXT = "tag:yaml.org,2002:str"
_COLLECTIONS = ("tag:yaml.org,2002:seq", "tag:yaml.org,2002:map")


def documents(text: str, *, origin: str) -> Iterator[tuple[int, Any]]:
    """The line (from 1) and the plain value of each document of a file. Raises `InputError` with the line."""
    import yaml

    kind = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        loader = kind(text)
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                yield node.start_mark.line + 1, _Values(loader, origin).of(node, 0)
    except yaml.MarkedYAMLError as error:
        where = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        problem = (error.problem or "not YAML").splitlines()[0]
        raise InputError(f"{origin}{where}: {problem}", remedy="mend the YAML at that line") from error
    except (yaml.YAMLError, ValueError) as error:
        words = str(error).splitlines()[0]
        raise InputError(f"{origin}: not YAML: {words}", remedy="mend the file") from error


class _Values:
    """Plain values of the nodes of one document."""

    def __init__(self, loader: Any, origin: str) -> None:
        self._loader = loader
        self._origin = origin
        self._seen: set[int] = set()

    def of(self, node: Any, depth: int) -> Any:
        """The value of a node `depth` levels deep."""
        if node.id == "scalar":
            return node.value if node.tag == _TEXT else self._loader.construct_object(node)
        if id(node) in self._seen:
            raise self._error(node, "an alias, where values are to be written out")
        if node.tag not in _COLLECTIONS:
            raise self._error(node, f"a tag ({node.tag}), which Kubernetes does not know")
        if depth > MAX_NESTING:
            raise self._error(node, f"nested more than {MAX_NESTING} levels deep")
        self._seen.add(id(node))
        if node.id == "sequence":
            return [self.of(item, depth + 1) for item in node.value]
        found: dict[Any, Any] = {}
        for key, value in node.value:
            if key.id != "scalar":
                raise self._error(key, "a key that is no word")
            name = self.of(key, depth)
            if name in found:
                raise self._error(key, f"the key '{name}' stands twice")
            found[name] = self.of(value, depth + 1)
        return found

    def _error(self, node: Any, words: str) -> InputError:
        return InputError(f"{self._origin}:{node.start_mark.line + 1}: {words}", remedy="mend the YAML at that line")
