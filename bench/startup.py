"""Start-up: `modelctl --help` beside `hf --help`, the Hugging Face Hub's command line and also a click program."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

from comparison import Row, beside, medians, quietly

BIN = Path(sys.executable).parent
LIMIT = 0.25


def rows(*, rounds: int) -> list[Row]:
    """From the process's start to the end of its help text."""
    times = medians(
        {"modelctl": quietly(BIN / "modelctl", "--help"), "hf": quietly(BIN / "hf", "--help")}, rounds=rounds
    )
    return beside(
        "start-up (--help)", times, "modelctl", at_most={"hf": LIMIT},
        rounds=rounds, huggingface_hub=version("huggingface_hub"), click=version("click"),
    )  # fmt: skip
