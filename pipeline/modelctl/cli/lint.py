"""`modelctl lint FOLDER`: what schemas can't see in manifests, ours or edited by hand."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command(epilog="Exit codes: 0 nothing wrong, 1 faults, 2 usage, 3 something could not be judged.")
@click.argument("folder", type=click.Path(path_type=Path), default="gitops")
@click.option("--json", "json_target", metavar="FILE|-", help="Also write the faults as JSON; - is stdout.")
def lint(folder: Path, json_target: str | None) -> int:
    """Find in a folder of manifests what the API's schemas let pass.

    Steps without a pause, analyses that take silence for a verdict, weights that nobody verifies, streams that are cut,
    flags left to an engine's defaults, keys that KEDA ignores, PromQL that does not parse.

    \b
    modelctl lint
    modelctl lint gitops/environments/prod
    """
    from modelctl.cli.output import console, write_json
    from modelctl.rollout.lint.run import lint as run

    result = run(folder)
    if json_target:
        body = {
            "folders": result.folders,
            "manifests": result.manifests,
            "faults": [fault.as_json() for fault in result.faults],
        }
        write_json(json_target, json.dumps(body, indent=2, ensure_ascii=False) + "\n")
    if json_target != "-":
        for fault in result.faults:
            click.echo(f"{folder}/{fault}")
    out = console(stderr=True)
    seen = f"{result.manifests} manifests in {result.folders} folders"
    if result.faults:
        out.print(f"{seen}: {len(result.faults)} faults", style="bold red")
        return 1
    out.print(f"{seen}: nothing wrong", style="bold green")
    return 0
