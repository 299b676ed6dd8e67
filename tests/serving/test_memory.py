from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from modelctl.serving import memory
from modelctl.serving.endpoint import Endpoint
from modelctl.serving.memory import MemorySource, MemoryWatch, memory_source, parse_smi

OURS = Endpoint(base_url="http://engine", model="m", max_model_len=None, managed=True, pid=os.getpid())


def test_on_a_cpu_it_is_the_resident_memory_of_the_engines_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "gpu_devices", tuple)
    source = memory_source(OURS)
    assert source is not None
    assert source.name == "resident memory of its processes"
    assert (source.read() or 0) > 10 << 20


def test_an_engine_that_is_not_ours_has_none() -> None:
    assert memory_source(dataclasses.replace(OURS, managed=False)) is None
    assert memory_source(dataclasses.replace(OURS, pid=None)) is None


def test_without_nvml_a_gpu_is_read_with_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text('#!/bin/sh\n[ "$1" = --query-gpu=memory.used ] && printf "1024\\n2048\\n"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(memory, "gpu_devices", lambda: (Path("/dev/nvidia0"),))
    monkeypatch.setattr(memory, "_nvml_used", lambda: None)
    source = memory_source(OURS)
    assert source is not None
    assert "nvidia-smi" in source.name
    assert source.read() == 3072 << 20
    program.write_text("#!/bin/sh\nexit 9\n")
    assert source.read() is None


def test_a_gpu_that_nothing_reads_has_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory, "gpu_devices", lambda: (Path("/dev/nvidia0"),))
    monkeypatch.setattr(memory, "_nvml_used", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert memory_source(OURS) is None


def test_a_device_that_does_not_say_makes_the_sum_unknown() -> None:
    assert parse_smi("100\n200\n") == 300 << 20
    assert parse_smi("100\n[N/A]\n") is None
    assert parse_smi("") is None


def test_the_peak_since_the_last_look_is_kept() -> None:
    readings = iter([5, 9, 3, 2])
    watch = MemoryWatch(MemorySource(name="a test", read=lambda: next(readings)), interval_s=600)
    with watch:
        watch._look()
        assert watch.take() == 9
        assert watch.take() == 3
        assert watch.take() == 2
    with MemoryWatch(None) as nothing:
        assert nothing.take() is None
