"""One call into an isolated Python child: a JSON request in, progress and one JSON result out.

The parent side is `call`; a worker module calls `serve` with its function. The child runs with `-I`, so no folder of
the model is ever on its import path; whatever libraries print goes to its error output, never into the answer.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from modelctl.errors import CannotDecideError
from modelctl.isolation import Child, Sandbox
from modelctl.progress import Task


def call(
    sandbox: Sandbox,
    module: str,
    request: Mapping[str, object],
    *,
    readable: Sequence[Path] = (),
    writable: Sequence[Path] = (),
    env: Mapping[str, str] | None = None,
    devices: bool = False,
    time_limit_s: float,
    memory_limit_bytes: int,
    task: Task | None = None,
    on_progress: Callable[[Mapping[str, Any]], None] | None = None,
) -> Any:
    """Run `modelctl.<module>` on a request and return its result.

    Progress messages of the child (`{"advance": 3, "describe": "layer 4"}`) move `task` and go to `on_progress`.
    Raises `CannotDecideError` with the child's last words when it fails, is killed or answers nonsense.
    """
    answers: list[Any] = []

    def on_line(line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError as error:
            raise CannotDecideError(f"{module}: unreadable answer: {line[:200]!r}") from error
        if "result" in message:
            answers.append(message["result"])
            return
        if task is not None:
            task.advance(float(message.get("advance", 0)))
            if "describe" in message:
                task.describe(str(message["describe"]))
        if on_progress is not None:
            on_progress(message)

    finished = sandbox.run(
        Child(
            argv=[sys.executable, "-I", "-m", f"modelctl.{module}"],
            readable=readable,
            writable=writable,
            env=env or {},
            devices=devices,
        ),
        request=json.dumps(request).encode(),
        on_line=on_line,
        time_limit_s=time_limit_s,
        memory_limit_bytes=memory_limit_bytes,
    )
    if finished.returncode != 0 or len(answers) != 1:
        words = finished.stderr.strip().splitlines()[-12:]
        raise CannotDecideError(
            f"{module} ended with status {finished.returncode}: {words[-1] if words else 'no words'}",
            remedy="\n".join(words) or None,
        )
    return answers[0]


def serve(function: Callable[[Any, Callable[..., None]], object]) -> None:
    """The child's main: read the request, run `function(request, progress)`, write its result.

    `progress(advance=…, describe=…)` may be called at any time.
    """
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr

    def send(message: Mapping[str, object]) -> None:
        answer.write(json.dumps(message) + "\n")
        answer.flush()

    def progress(**message: object) -> None:
        send(message)

    request = json.loads(sys.stdin.buffer.read())
    send({"result": function(request, progress)})
