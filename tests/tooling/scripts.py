"""Load the project's scripts as modules, under names of their own."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "pipeline" / "modelctl"


def load_script(path: str) -> ModuleType:
    """The module of a script, by its path from the project's root."""
    name = "script_" + path.removesuffix(".py").replace("/", "_")
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str((ROOT / path).parent))  # as it is when the script runs
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.path[0]
    return module
