"""A Python that has imported modelctl and forks for every command asked of it: see `command`.

Run with `-I`. One request is a line of JSON (argv, cwd, env, and the paths of two open streams); the answers are the
child's process id and, when it has ended, its exit code. The child is what a fresh process would be, apart from the
modules that are there already, and it ends as Python ends.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import pkgutil
import sys
from collections.abc import Mapping
from typing import Any


def load() -> None:
    """Import all of modelctl that a command may import; what only runs in programs of its own is left out."""
    import modelctl

    for module in pkgutil.walk_packages(modelctl.__path__, "modelctl."):
        if not module.name.endswith(("worker", "__main__", "gateway_hooks")):
            importlib.import_module(module.name)


def become(request: Mapping[str, Any]) -> None:
    """Take the place of the command in this child."""
    for number, path in enumerate(request["streams"], 1):
        opened = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False))
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), encoding="utf-8")
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(2, "w", closefd=False)),
        encoding="utf-8", errors="backslashreplace", line_buffering=True,
    )  # fmt: skip
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.argv = list(request["argv"])


def main() -> None:
    """Serve until standard input ends."""
    load()
    requests, answers = os.fdopen(os.dup(0), encoding="utf-8"), os.fdopen(os.dup(1), "w", encoding="utf-8")
    for line in iter(requests.readline, ""):
        child = os.fork()
        if child == 0:
            os.close(requests.fileno())
            os.close(answers.fileno())
            become(json.loads(line))
            from modelctl.__main__ import main as command

            command()
        print(child, file=answers, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=answers, flush=True)


if __name__ == "__main__":
    main()
