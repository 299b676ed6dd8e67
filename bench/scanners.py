"""The other scanners of model files, in an environment of their own, over a corpus on the disk.

None of them is a part of modelctl, and each brings libraries that it does not want.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".cache" / "bench-scanners"
PACKAGES = ("picklescan[7z]==1.0.5", "modelscan[h5py]==0.8.8", "fickling==0.1.12", "modelaudit==0.2.54")
TOOLS = ("picklescan", "picklescan --strict", "modelscan", "fickling", "modelaudit")
SLOW = frozenset({"modelaudit"})
"""Tools that several processes share the corpus for."""

State = Literal["found", "clean", "not scanned", "error"]


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a tool said of one input."""

    state: State
    detail: str


def ready() -> bool:
    """Whether the scanners are installed."""
    return all((HOME / "bin" / name).exists() for name in ("picklescan", "modelscan", "fickling", "modelaudit"))


def install() -> None:
    """Install the scanners, saying so before. Raises `SystemExit` when pip fails."""
    print(f"installing {', '.join(PACKAGES)} into {HOME.relative_to(ROOT)} (about 500 MB, once)", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", str(HOME)], check=True)
    pip = [str(HOME / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *PACKAGES]
    if subprocess.run(pip, check=False).returncode:
        raise SystemExit("bench: the scanners could not be installed; --without detection deep-scan leaves them out")


def run_all(index: Path, home: Path) -> Mapping[str, Mapping[str, Said]]:
    """What each tool says of each input of `corpus.json`, by tool and id; as many processes at once as cores."""
    cores = len(os.sched_getaffinity(0))
    jobs = [
        (tool, part, cores if tool in SLOW else 1) for tool in TOOLS for part in range(cores if tool in SLOW else 1)
    ]
    said: dict[str, dict[str, Said]] = {tool: {} for tool in TOOLS}
    with ThreadPoolExecutor(cores) as pool:
        for (tool, _, _), rows in zip(jobs, pool.map(partial(_run, index=index, home=home), jobs), strict=True):
            said[tool] |= rows
    return said


def environment(home: Path) -> dict[str, str]:
    """A home folder of their own, and no words to anybody's server."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "PROMPTFOO_DISABLE_TELEMETRY": "1", "HF_HUB_OFFLINE": "1"}


def _run(job: tuple[str, int, int], *, index: Path, home: Path) -> dict[str, Said]:
    tool, part, parts = job
    driver = Path(__file__).with_name("scan_driver.py")
    command = [str(HOME / "bin" / "python"), "-I", str(driver), tool, str(index), str(part), str(parts)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=home, env=environment(home))
    if done.returncode:
        raise SystemExit(f"bench: {tool}: exit {done.returncode}\n{done.stderr[-2000:]}")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row.pop("id"): Said(**row) for row in rows}
