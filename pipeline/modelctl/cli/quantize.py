"""`modelctl quantize REPO OUT`: make a quantised model and stop there."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

    from modelctl.accuracy.quantize import Quantized
    from modelctl.admission.making import Prepared


@click.command(epilog="Exit codes: 0 made, 2 usage, 3 could not be made, 130 interrupted.")
@click.argument("repo")
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--bits", type=click.Choice(["2", "3", "4", "8"]), help="Bits of a weight; 4 unless a release says else.")
@click.option("--group-size", type=click.Choice(["16", "32", "64", "128"]), help="Weights that share a scale; 128.")
@click.option("--desc-act/--no-desc-act", default=None, help="Solve columns in the order of their activation.")
@click.option("--exclude", multiple=True, metavar="REGEX", help="Leave modules of this name alone; repeatable.")
@click.option(
    "--calibration", type=click.Path(path_type=Path), metavar="FILE", help="Text or .jsonl to calibrate with."
)
@click.option("--samples", type=click.IntRange(1, 4096), help="Samples to calibrate with; 256.")
@click.option("--sample-tokens", type=click.IntRange(16, 8192), help="Tokens of a sample; 512.")
@click.option("--seed", type=int, help="Where in the text samples begin; 0.")
@click.option("--policy", metavar="NAME|FILE", help="Limits of time and memory, isolation, default calibration text.")
@click.option("--dry-run", is_flag=True, help="Check the recipe against every layer, estimate, make nothing.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON to stdout.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def quantize(
    repo: str,
    out: Path,
    bits: str | None,
    group_size: str | None,
    desc_act: bool | None,
    exclude: tuple[str, ...],
    calibration: Path | None,
    samples: int | None,
    sample_tokens: int | None,
    seed: int | None,
    policy: str | None,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Quantise the model REPO by GPTQ into the folder OUT.

    REPO is whatever `modelctl admit` takes. A release file brings its own recipe, which the options change. OUT must be
    empty or not there; it appears whole or not at all. Nothing is judged: admit the result.

    \b
    modelctl quantize ./model ./model-4bit --group-size 64 --dry-run
    modelctl quantize org/name@COMMIT ./model-4bit --exclude self_attn --exclude down_proj --group-size 32
    """
    from modelctl.accuracy.plan import beforehand
    from modelctl.admission.making import Order, make, prepare
    from modelctl.cli.output import console
    from modelctl.cli.progress import shown
    from modelctl.settings import load_workspace

    changes: dict[str, object] = {
        "bits": int(bits) if bits else None,
        "group_size": int(group_size) if group_size else None,
        "desc_act": desc_act,
        "exclude": exclude or None,
        "calibration_samples": samples,
        "calibration_tokens": sample_tokens,
        "seed": seed,
    }
    workspace = load_workspace(Path.cwd())
    order = Order(repo=repo, out=out, workspace=workspace, changes=changes, calibration=calibration, policy=policy)
    with shown(quiet=quiet) as progress:
        prepared = prepare(order, progress)
        made = None if dry_run else make(prepared, progress)
    if as_json:
        click.echo(json.dumps(_document(prepared, made), indent=2, ensure_ascii=False))
        return
    screen = console()
    if made is None:
        for line in beforehand(prepared.plan, memory_limit_bytes=prepared.memory_limit_bytes):
            screen.print(line, soft_wrap=True)
        screen.print("nothing was made: this was a dry run", style="bold")
        return
    _print(prepared, made, screen)


def _document(prepared: Prepared, made: Quantized | None) -> dict[str, object]:
    plan = prepared.plan
    return {
        "source": prepared.subject.source.description,
        "source_digest": plan.source.digest,
        "recipe": plan.spec.model_dump(mode="json", exclude={"calibration"}),
        "calibration": plan.text.origin,
        "calibration_sha256": plan.text.sha256,
        "estimate": asdict(plan.estimate),
        "made": None if made is None else {**asdict(made.made), "reused": made.reused},
        "folder": None if made is None else str(prepared.order.out.absolute()),
        "digest": None if made is None else made.tree.digest,
        "size_bytes": None if made is None else made.tree.size_bytes,
        "warnings": [] if made is None else list(made.warnings),
    }


def _print(prepared: Prepared, made: Quantized, screen: Console) -> None:
    from rich.filesize import decimal

    plan, out = prepared.plan, prepared.order.out
    facts = made.made
    screen.print(f"{out}: {facts.modules} matrices in {plan.spec.bits} bits", style="bold green")
    screen.print(f"\ndigest       {made.tree.digest}")
    screen.print(f"size         {decimal(made.tree.size_bytes)}, of {decimal(plan.source.size_bytes)}")
    took = f"{facts.seconds:.0f} s, {decimal(facts.peak_memory_bytes)} at most"
    screen.print(f"making       {'made before and kept' if made.reused else took}")
    screen.print(f"calibration  {facts.calibration}, {facts.samples} samples of {facts.sample_tokens} tokens")
    for warning in made.warnings:
        screen.print(f"! {warning}", style="yellow", soft_wrap=True)
    screen.print("\nNothing was judged. To release it, write into registry/NAME/VERSION/release.yaml, under spec:")
    for line in _as_source(prepared, made):
        screen.print(f"  {line}", soft_wrap=True)
    screen.print("next: modelctl admit NAME@VERSION", style="bold")


def _as_source(prepared: Prepared, made: Quantized) -> list[str]:
    """The lines of a release file that serve OUT; its original is compared with it as `baseline`."""
    source, release = prepared.subject.source, prepared.subject.release
    root = prepared.order.workspace.root
    if release is not None:
        written = release.spec.source.model_dump(mode="json", exclude_defaults=True)
        original = ", ".join(f"{key}: {value}" for key, value in written.items())
    elif source.kind == "hub":
        original = f"hub: {source.repo_id}, revision: {source.commit}"
    elif source.kind == "folder":
        original = f"folder: {os.path.relpath(source.tree.root, root)}, digest: {source.tree.digest}"
    else:
        original = f"{source.kind}: {prepared.order.repo}, digest: {source.tree.digest}"
    folder = os.path.relpath(prepared.order.out.absolute(), root)
    return [f"source: {{folder: {folder}, digest: {made.tree.digest}}}", f"baseline: {{{original}}}"]
