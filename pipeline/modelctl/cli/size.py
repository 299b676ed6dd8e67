"""`modelctl size REPO`: does a model fit, on what, with which flags, and what a million tokens cost."""

from __future__ import annotations

from pathlib import Path

import click

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
POSITIVE = click.FloatRange(0, min_open=True)


@click.command(epilog="Exit codes: 0 it fits one of the GPUs, 1 it fits none, 2 usage, 3 could not decide.")
@click.argument("repo")
@click.option(
    "--gpu", "gpus", multiple=True, metavar="NAME", help="H100-80GB, H100-80GB:3g.40gb, 24GiB; all by default."
)
@click.option("--max-gpus", type=click.IntRange(1, 16), default=8, show_default=True, help="Of one kind together.")
@click.option("--length", type=click.IntRange(1), help="Tokens of prompt and answer.  [default: what the model states]")
@click.option("--streams", type=click.IntRange(1), help="Requests at once.  [default: 1]")
@click.option("--utilization", type=click.FloatRange(0, 1, min_open=True), help="Share of memory.  [default: 0.9]")
@click.option("--batched-tokens", type=click.IntRange(16), help="max_num_batched_tokens.  [default: 8192]")
@click.option("--kv-cache-dtype", default="auto", show_default=True, metavar="DTYPE", help="auto, fp8, bfloat16, …")
@click.option("--block-size", type=click.IntRange(1), default=16, show_default=True, help="Tokens of a KV block.")
@click.option("--engine-version", metavar="VERSION", help="Of vLLM: windows grow with it.  [default: a current one]")
@click.option("--eager", is_flag=True, help="Without CUDA graphs (--enforce-eager).")
@click.option("--price", multiple=True, metavar="[GPU=]MONEY", help="Of one GPU (or slice) per hour; again for others.")
@click.option("--purchase", multiple=True, metavar="[GPU=]MONEY", help="Of one GPU, instead of --price.")
@click.option("--years", type=POSITIVE, default=4.0, show_default=True, help="Over which a purchase is spread.")
@click.option(
    "--power-price", type=click.FloatRange(0), default=0.0, metavar="MONEY", help="Of a kWh, with --purchase."
)
@click.option(
    "--throughput",
    multiple=True,
    metavar="[GPU=]TOKENS/S",
    help="Written tokens a second, all GPUs of a kind together.",
)
@click.option("--report", type=FILE, help="Take the throughput that this admission report measured.")
@click.option("--json", "json_target", metavar="FILE|-", help="Also write the result as JSON; - is stdout.")
def size(
    repo: str,
    gpus: tuple[str, ...],
    max_gpus: int,
    length: int | None,
    streams: int | None,
    utilization: float | None,
    batched_tokens: int | None,
    kv_cache_dtype: str,
    block_size: int,
    engine_version: str | None,
    eager: bool,
    price: tuple[str, ...],
    purchase: tuple[str, ...],
    years: float,
    power_price: float,
    throughput: tuple[str, ...],
    report: Path | None,
    json_target: str | None,
) -> int:
    """Memory, flags, GPUs and cost of serving a model, with the arithmetic.

    REPO is a folder, a Hub id, a release file or NAME@VERSION. Of a Hub id only config.json and the index are fetched;
    a release file brings its own length, streams and flags.

    \b
    modelctl size org/model --gpu L4 --gpu H100-80GB:3g.40gb --length 8192 --streams 32
    modelctl size ./model --gpu H100-80GB --price 2.5 --throughput 1800
    modelctl size ./model --gpu L4 --gpu H100-80GB --price L4=0.8 --price H100-80GB=2.5
    modelctl size ./model --gpu A100-80GB --purchase 15000 --power-price 0.2 --report admission.json
    """
    from modelctl.api import size as run
    from modelctl.cli.output import console, write_json
    from modelctl.cli.size_money import Amounts, Money, best, parse_amounts
    from modelctl.cli.size_text import as_json, explain, overview
    from modelctl.errors import InputError
    from modelctl.settings import load_workspace

    prices, purchases = parse_amounts("--price", price), parse_amounts("--purchase", purchase)
    if prices.clashes(purchases):
        raise InputError("--price and --purchase exclude each other", remedy="give one of them for each GPU")
    if throughput and report is not None:
        raise InputError("--throughput and --report exclude each other", remedy="give one of them")
    given = {
        "length": length, "streams": streams, "utilisation": utilization, "batched_tokens": batched_tokens,
        "cache_dtype": kv_cache_dtype, "block_size": block_size, "engine_version": engine_version, "eager": eager,
    }  # fmt: skip
    demand = {key: value for key, value in given.items() if value is not None}
    plans = run(load_workspace(Path.cwd()), repo, gpus=gpus, max_gpus=max_gpus, demand=demand)
    money = Money(
        price=prices, purchase=purchases, years=years, power_price=power_price,
        tokens_per_s=parse_amounts("--throughput", throughput) if report is None else Amounts(others=_measured(report)),
    )  # fmt: skip
    if json_target:
        write_json(json_target, as_json(plans, money))
    if json_target != "-":
        out = console()
        if len(plans) > 1:
            overview(plans, money, out)
        explain(best(plans, money), money, out)
    return 0 if any(plan.fits for plan in plans) else 1


def _measured(report: Path) -> float:
    """Tokens a second that the concurrency check of an admission report measured. Raises `InputError`."""
    from modelctl.errors import InputError
    from modelctl.model.strict_json import read_object

    checks = read_object(report, origin=str(report)).get("checks")
    for check in checks if isinstance(checks, list) else []:
        measurements = check.get("measurements") if isinstance(check, dict) else None
        for item in measurements if isinstance(measurements, list) else []:
            value = item.get("value") if isinstance(item, dict) and item.get("name") == "throughput" else None
            if isinstance(value, int | float) and value > 0:
                return float(value)
    raise InputError(
        f"{report}: no measured throughput", remedy="admit with the concurrency check, or give --throughput"
    )
