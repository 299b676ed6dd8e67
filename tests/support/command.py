"""Runs the installed `modelctl` as a person's shell would, in a folder of the test's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

MODELCTL = Path(sys.executable).with_name("modelctl")


def modelctl(
    *arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None, timeout_s: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end. The environment holds no credentials and no settings but those in `env`."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return subprocess.run(
        [str(MODELCTL), *map(str, arguments)],
        cwd=cwd,
        env={**kept, "HOME": str(cwd), "GIT_CONFIG_NOSYSTEM": "1", **(env or {})},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
