"""The child that runs bandit, in several processes when there are many files; all of them end with it.

Request: `{"files": [path, …], "settings": path of bandit's configuration, "processes": number}`. Result: bandit's own
`results`, sorted by file, its `errors`, and the files it has looked at, `seen`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from typing import Any

from modelctl.worker import serve

MAX_FILES_AT_ONCE = 2000
"""For one process: their names are its arguments, of which a system takes 2 MiB."""
MAX_OUTPUT_BYTES = 64 << 20


def look(request: Any, progress: Callable[..., None]) -> dict[str, object]:
    """Run bandit over everything that is asked for."""
    files, processes = request["files"], int(request["processes"])
    size = min(MAX_FILES_AT_ONCE, -(-len(files) // processes))
    portions = [files[start : start + size] for start in range(0, len(files), size)]
    with ThreadPoolExecutor(processes) as pool:
        reports = list(pool.map(lambda portion: _run(portion, request["settings"]), portions))
    return {
        "results": sorted((result for report in reports for result in report["results"]), key=itemgetter("filename")),
        "errors": [error for report in reports for error in report["errors"]],
        "seen": [name for report in reports for name in report["metrics"]],
    }


def _run(files: Sequence[str], settings: str) -> dict[str, Any]:
    options = ["-f", "json", "-q", "-n", "1", "--exit-zero", "--ignore-nosec", "--ini", settings, "-x", "/nothing"]
    done = subprocess.run(
        [sys.executable, "-I", "-m", "bandit", *options, "--", *files], capture_output=True, check=False
    )
    if len(done.stdout) > MAX_OUTPUT_BYTES:
        raise RuntimeError("bandit's output is too long to be read")
    try:
        report: dict[str, Any] = json.loads(done.stdout)
    except ValueError as error:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no words"]
        raise RuntimeError(f"bandit ended with status {done.returncode} and no report: {words[0]}") from error
    return report


if __name__ == "__main__":
    serve(look)
