"""Rendering 500 releases into five environments, and `modelctl lint` of the result, beside what was promised."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from comparison import Row, medians, peak_memory, quietly
from render_many import ENVIRONMENTS, RELEASES

HERE = Path(__file__).resolve().parent
MODELCTL = Path(sys.executable).with_name("modelctl")
RENDER_S, LINT_S = 10.0, 20.0


def rows(folder: Path, *, rounds: int) -> list[Row]:
    """Both as whole processes, and the peak memory of each over an interpreter that only imports the same.

    What is rendered is not written: that takes the file system's time.
    """
    target = folder / "gitops"
    quietly(sys.executable, HERE / "render_many.py", target)()
    render, lint = quietly(sys.executable, HERE / "render_many.py"), quietly(MODELCTL, "lint", target)
    times = medians({"render": render, "lint": lint}, rounds=rounds)
    folders = RELEASES * len(ENVIRONMENTS)
    parameters = {"rounds": rounds, "releases": RELEASES, "environments": len(ENVIRONMENTS)}
    run = f"import sys; sys.path[:0] = [{str(HERE)!r}, {str(HERE.parent)!r}]; from pathlib import Path\n"
    imports = "import modelctl.rollout.render, modelctl.rollout.lint.run, tests.support.rollouts, promql_parser, yaml"
    programs = {
        "render": f"{run}{imports}\nimport render_many; render_many.main(None)",
        "lint": f"{run}{imports}\nmodelctl.rollout.lint.run.lint(Path(sys.argv[1]) / 'gitops')",
    }
    memory = [
        peak_memory(f"peak memory, {what}", program, folder, parameters=parameters, libraries=run + imports)
        for what, program in programs.items()
    ]
    shutil.rmtree(target)
    return [
        Row(figure=f"render {folders} folders", ours=times["render"], beside="what was promised",
            other=RENDER_S, at_most=1.0, parameters=parameters),
        Row(figure=f"modelctl lint, {folders} folders", ours=times["lint"], beside="what was promised",
            other=LINT_S, at_most=1.0, parameters=parameters),
        *memory,
    ]  # fmt: skip
