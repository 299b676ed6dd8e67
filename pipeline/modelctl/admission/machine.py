"""Which machine made the evidence."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess

from modelctl.admission.report import MachineReport
from modelctl.isolation import IsolationKind


def describe_machine(isolation: IsolationKind) -> MachineReport:
    """This machine, as reports name it."""
    return MachineReport(
        hostname=platform.node(),
        system=f"{platform.system()} {platform.release()} {platform.machine()}, Python {platform.python_version()}",
        cpus=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        gpus=gpus(),
        isolation=isolation,
    )


def gpus() -> tuple[str, ...]:
    """Names of the NVIDIA GPUs that the driver's own tool lists; none without the tool."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    try:
        done = subprocess.run(
            [program, "--query-gpu=name,memory.total", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(line.strip() for line in done.stdout.splitlines() if line.strip()) if done.returncode == 0 else ()
