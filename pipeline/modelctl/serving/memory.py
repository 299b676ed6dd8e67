"""How much memory an engine takes: that of its GPUs where there are any, else the resident memory of its processes.

GPU memory is read through NVML (`nvidia-ml-py`, where it is installed) or from `nvidia-smi`, as what is in use on the
whole of each device: inside containers and namespaces NVML names no processes that could be told apart. Memory that
does not belong to the engine is in it, and the report says which way was used.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from modelctl.serving.command import gpu_devices
from modelctl.serving.endpoint import Endpoint
from modelctl.watching import resident_bytes

_INTERVAL_S = 0.25
_WATCHING_SHARE = 0.02
"""Of one core: looking through a machine with hundreds of processes takes milliseconds each time."""
_SMI = ("--query-gpu=memory.used", "--format=csv,noheader,nounits")
_SMI_TIMEOUT_S = 20.0


@dataclass(frozen=True, kw_only=True)
class MemorySource:
    """Where readings come from: `read` gives bytes, or None when it can't be read just now."""

    name: str
    read: Callable[[], int | None]


def memory_source(endpoint: Endpoint) -> MemorySource | None:
    """The way to read the memory of an engine that modelctl started; None for another one, and where a GPU's memory
    can't be read."""
    pid = endpoint.pid
    if not endpoint.managed or pid is None:
        return None
    if not gpu_devices():
        return MemorySource(name="resident memory of its processes", read=lambda: resident_bytes(pid) or None)
    if _nvml_used() is not None:
        return MemorySource(name="memory in use on all GPUs (NVML)", read=_nvml_used)
    if shutil.which("nvidia-smi") is not None:
        return MemorySource(name="memory in use on all GPUs (nvidia-smi)", read=_smi_used)
    return None


class MemoryWatch:
    """Reads the memory in a thread for the time of a `with` block, and keeps the peak since the last `take`."""

    def __init__(self, source: MemorySource | None, *, interval_s: float = _INTERVAL_S) -> None:
        self.source = source
        self._interval_s = interval_s
        self._peak: int | None = None
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="engine-memory", daemon=True)

    def __enter__(self) -> MemoryWatch:
        if self.source is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=_SMI_TIMEOUT_S)

    def take(self) -> int | None:
        """The peak since the last call, in bytes, with a reading of now; None when nothing was read."""
        self._look()
        with self._lock:
            peak, self._peak = self._peak, None
        return peak

    def _run(self) -> None:
        pause = self._interval_s
        while not self._stopping.wait(pause):
            began = time.thread_time()
            self._look()
            pause = max(self._interval_s, (time.thread_time() - began) / _WATCHING_SHARE)

    def _look(self) -> None:
        used = self.source.read() if self.source is not None else None
        if used is not None:
            with self._lock:
                self._peak = max(used, self._peak or 0)


def _nvml_used() -> int | None:
    try:
        import pynvml  # type: ignore[import-untyped, import-not-found, unused-ignore] # an extra
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        try:
            handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
            return sum(int(pynvml.nvmlDeviceGetMemoryInfo(handle).used) for handle in handles) if handles else None
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return None


def _smi_used() -> int | None:
    try:
        done = subprocess.run(
            ["nvidia-smi", *_SMI], capture_output=True, text=True, timeout=_SMI_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_smi(done.stdout) if done.returncode == 0 else None


def parse_smi(output: str) -> int | None:
    """The sum over the GPUs of `nvidia-smi --query-gpu=memory.used` (MiB, one a line), in bytes; None when a device
    does not say."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if not lines or not all(line.isdecimal() for line in lines):
        return None
    return sum(int(line) for line in lines) << 20
