"""Scratch folders go with their process, also when it was killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from modelctl.admission.scratch import scratch_folder


def test_it_is_gone_afterwards_and_a_killed_ones_is_swept(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait(timeout=30)
    left = tmp_path / "tmp" / f"{process.pid}-left"
    left.mkdir(parents=True)
    (left / "part").write_text("x")
    with scratch_folder(tmp_path) as mine:
        assert mine.is_dir()
        assert not left.exists()
        with scratch_folder(tmp_path) as other:
            assert other != mine
            assert mine.is_dir()
    assert list((tmp_path / "tmp").iterdir()) == []
