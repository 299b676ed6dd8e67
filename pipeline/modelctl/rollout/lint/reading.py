"""YAML as Kubernetes reads it, by libyaml: thousands of manifests in seconds, and strict where a cluster is not.

A key that stands twice, an alias and nesting without end are errors: the first hides what was meant, the others occupy
a reader.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

from modelctl.errors import InputError

MAX_NESTING = 64
_TEXT = "tag:yaml.org,2002:str"
_WHOLE = "tag:yaml.org,2002:int"
_COLLECTIONS = ("tag:yaml.org,2002:seq", "tag:yaml.org,2002:map")


def documents(text: str, *, origin: str) -> Iterator[tuple[int, Any]]:
    """The line (from 1) and the plain value of each document of a file. Raises `InputError` with the line."""
    import yaml

    try:
        loader = _loader()(text)
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                yield node.start_mark.line + 1, _Values(loader, origin).of(node, 0)
    except yaml.MarkedYAMLError as error:
        where = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        problem = (error.problem or "not YAML").splitlines()[0]
        raise InputError(f"{origin}{where}: {problem}", remedy="mend the YAML at that line") from error
    except (yaml.YAMLError, ValueError, KeyError) as error:  # KeyError: `!!bool maybe`
        words = str(error).splitlines()[0]
        raise InputError(f"{origin}: not YAML: {words}", remedy="mend the file") from error


@cache
def _loader() -> Any:
    """PyYAML's safe loader on libyaml, which looks up what a plain word is (text, number, truth) once for each word."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    plain = base("")

    @lru_cache(maxsize=8192)
    def tag(kind: Any, value: Any, implicit: Any) -> Any:
        return plain.resolve(kind, value, implicit)

    class Loader(base):  # type: ignore[misc]
        def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
            return tag(kind, value, implicit)

        def descend_resolver(self, *_: Any) -> None:
            """Tags by path, which nobody declares here."""

        def ascend_resolver(self) -> None:
            """The same."""

    return Loader


class _Values:
    """Plain values of the nodes of one document."""

    def __init__(self, loader: Any, origin: str) -> None:
        self._loader = loader
        self._origin = origin
        self._seen: set[int] = set()

    def of(self, node: Any, depth: int) -> Any:
        """The value of a node `depth` levels deep."""
        if node.id == "scalar":
            if node.tag == _TEXT:
                return node.value
            if node.tag == _WHOLE and node.value.isdecimal() and node.value[0] != "0":
                return int(node.value)  # nearly all of them
            return self._loader.construct_object(node)
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
