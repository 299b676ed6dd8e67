"""The child that parses hostile Python source and tries chat templates; it runs and imports no Python of a model.

Request: `{"units": [{"path": …, "certain": bool}], "templates": [text, …], "template_time_limit_s": …,
"template_memory_limit_bytes": …}`. Result: for each unit `{"is_code", "error", "mentions"}`, for each template a list
of problems. A template is compiled and rendered, in a fork of the child, when its syntax shows nothing.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from modelctl.scan.python_rules import is_code, mentions
from modelctl.scan.template_rules import problems
from modelctl.scan.template_trial import trial
from modelctl.worker import serve


def look(request: Any, progress: Callable[..., None]) -> dict[str, object]:
    """Parse everything that is asked for, and render the templates."""
    warnings.simplefilter("ignore")  # odd escapes in hostile source are not worth a line each
    units = []
    for unit in request["units"]:
        units.append(_unit(Path(unit["path"]).read_bytes(), certain=bool(unit["certain"])))
        progress(advance=1)
    templates = []
    for text in request["templates"]:
        templates.append(
            problems(text)
            or trial(
                text,
                time_limit_s=float(request["template_time_limit_s"]),
                memory_limit_bytes=int(request["template_memory_limit_bytes"]),
            )
        )
        progress(advance=1)
    return {"units": units, "templates": templates}


def _unit(source: bytes, *, certain: bool) -> dict[str, object]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        unread = certain or isinstance(error, RecursionError | MemoryError)  # it may be more than the tree can hold
        words = f"{type(error).__name__}: {error}"[:200]
        return {"is_code": unread, "error": words if unread else None, "mentions": []}
    if not certain and not is_code(tree):
        return {"is_code": False, "error": None, "mentions": []}
    try:
        found = [asdict(mention) for mention in mentions(tree)]
    except RecursionError:
        return {"is_code": True, "error": "nested too deeply", "mentions": []}
    return {"is_code": True, "error": None, "mentions": found}


if __name__ == "__main__":
    serve(look)
