"""`modelctl list` over 2,000 releases, beside the second that was promised."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from comparison import Row, medians, quietly

ROOT = Path(__file__).resolve().parent.parent
MODELCTL = Path(sys.executable).with_name("modelctl")
RELEASES = 2000
LIMIT_S = 1.0


def rows(folder: Path, *, rounds: int) -> list[Row]:
    """The command from its start to its end, on a generated registry repository with 30 files a release."""
    sys.path.insert(0, str(ROOT))
    from tests.support.registries import many

    root = folder / "registry"
    many(root, RELEASES)
    times = medians({"list": quietly(MODELCTL, "list", cwd=root)}, rounds=rounds)
    shutil.rmtree(root)
    figure = f"modelctl list, {RELEASES} releases"
    parameters = {"rounds": rounds, "releases": RELEASES, "files_each": 31}
    return [
        Row(figure=figure, ours=times["list"], beside="what was promised", other=LIMIT_S, at_most=1.0,
            parameters=parameters),
    ]  # fmt: skip
