"""The isolated child that imports and runs one check of a team's own: see `admission.own_checks`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from modelctl.admission.own_checks import GROUP, OwnRequest
from modelctl.checks.base import Observation
from modelctl.worker import serve


def run(request: Any, _progress: Callable[..., None]) -> object:
    """Import the check and call it; its observation as plain values."""
    check = EntryPoint(name=request["name"], value=request["value"], group=GROUP).load()
    seen = check(
        OwnRequest(
            model=Path(request["model"]),
            role=request["role"],
            files=tuple(request["files"]),
            options=request["options"],
            workdir=Path(request["workdir"]),
        )
    )
    if not isinstance(seen, Observation):
        raise TypeError(f"{request['value']} returned a {type(seen).__name__}, wanted modelctl.checks.base.Observation")
    return asdict(seen)


if __name__ == "__main__":
    serve(run)
