"""`modelctl stress URL`: how much load a running engine takes, and where more streams stop paying."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

if TYPE_CHECKING:
    from modelctl.serving.bodies import Api
    from modelctl.serving.endpoint import Endpoint
    from modelctl.serving.plan import LoadPlan
    from modelctl.serving.sweep import SweepPlan
    from modelctl.serving.sweep_run import SweepResult

POSITIVE = click.FloatRange(0, min_open=True)


@click.command(epilog="Exit codes: 0 measured, 2 usage, 3 could not measure (no stage counts), 130 interrupted.")
@click.argument("url")
@click.option("--from", "first", type=click.IntRange(1), default=1, show_default=True, help="Fewest streams.")
@click.option("--to", "last", type=click.IntRange(1), default=64, show_default=True, help="Most; doubled up to there.")
@click.option("--rounds", type=click.IntRange(1, 16), default=3, show_default=True, help="Times that each is tried.")
@click.option("--seconds", type=POSITIVE, default=30.0, show_default=True, help="Of full load in each stage.")
@click.option(
    "--ramp", type=click.FloatRange(0), default=3.0, show_default=True, help="Seconds over which streams start."
)
@click.option("--prompt-tokens", type=click.IntRange(16), default=512, show_default=True)
@click.option("--answer-tokens", type=click.IntRange(8), default=128, show_default=True)
@click.option(
    "--api", type=click.Choice(["completions", "chat", "embeddings"]), default="completions", show_default=True,
    help="What is asked.",
)  # fmt: skip
@click.option("--image", is_flag=True, help="With --api chat: a small picture before every text.")
@click.option("--model", metavar="NAME", help="One of the engine's models, such as an adapter; else its first.")
@click.option("--rate", type=POSITIVE, help="No sweep: so many requests a second, whatever became of earlier ones.")
@click.option(
    "--arrivals", type=click.Choice(["poisson", "even"]), default="poisson", show_default=True, help="With --rate."
)
@click.option(
    "--lengths", metavar="auto|N,N…", help="After the sweep: one request of each length (prompt and answer, in tokens)."
)
@click.option("--repo", metavar="REPO", help="With --lengths: a folder or Hub id, whose config.json says the KV use.")
@click.option("--in-flight", type=click.IntRange(1), default=4096, show_default=True, help="With --rate: most at once.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the prompts.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("stress"), show_default=True, help="Folder of the sweep."
)
@click.option("--json", "json_target", metavar="FILE|-", help="Also write the result as JSON; - is stdout.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Also write a page with charts.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def stress(
    url: str,
    first: int,
    last: int,
    rounds: int,
    seconds: float,
    ramp: float,
    prompt_tokens: int,
    answer_tokens: int,
    api: Api,
    image: bool,
    model: str | None,
    rate: float | None,
    arrivals: Literal["poisson", "even"],
    lengths: str | None,
    repo: str | None,
    in_flight: int,
    seed: int,
    out: Path,
    json_target: str | None,
    html: Path | None,
    quiet: bool,
) -> int:
    """Sweep a running OpenAI-compatible engine: 1, 2, 4 … streams, each kept busy for a while, several rounds.

    Every request and every reading of the engine's metrics is kept in the folder of --out; an interrupted sweep goes on
    there when the same command is run again. With --rate there is no sweep but one load at that rate for --seconds.

    An engine that asks for a key gets that of the variable MODELCTL_ENGINE_API_KEY.

    \b
    modelctl stress http://127.0.0.1:8000 --to 64
    modelctl stress http://127.0.0.1:8000 --prompt-tokens 4096 --answer-tokens 256 --out long-prompts
    modelctl stress http://127.0.0.1:8000 --lengths auto --repo org/model --html page.html
    modelctl stress http://127.0.0.1:8000 --rate 5 --seconds 120 --out at-five
    modelctl stress http://127.0.0.1:8000 --api embeddings
    """
    from modelctl.checks.stress.session import exact_answers
    from modelctl.serving.engine import attach
    from modelctl.serving.models import choose_model
    from modelctl.serving.plan import LoadPlan
    from modelctl.serving.sweep import SweepPlan
    from modelctl.settings import load_workspace

    _refuse_contradictions(
        image=image, api=api, rate=rate, html=html, lengths=lengths, repo=repo, first=first, last=last
    )
    endpoint = attach(url, api_key=load_workspace(Path.cwd()).settings.engine.api_key)
    if model is not None:
        endpoint = choose_model(endpoint, model)
    exact = exact_answers(endpoint)
    if rate is not None:
        load = LoadPlan(
            streams=in_flight, duration_s=seconds, ramp_s=ramp, prompt_tokens=prompt_tokens,
            answer_tokens=answer_tokens, scrape_s=min(1.0, seconds / 5), exact_answer=exact, api=api, image=image,
            rate=rate, arrivals=arrivals, seed=seed,
        )  # fmt: skip
        return _at_rate(endpoint, load, out, json_target=json_target, quiet=quiet)
    plan = SweepPlan(
        streams=_doubled(first, last), repeats=rounds, stage_s=seconds, ramp_s=ramp, prompt_tokens=prompt_tokens,
        answer_tokens=answer_tokens, scrape_s=min(1.0, seconds / 5), exact_answer=exact, seed=seed,
        api=api, image=image,
    )  # fmt: skip
    return _sweep(endpoint, plan, out, lengths=lengths, repo=repo, json_target=json_target, html=html, quiet=quiet)


def _refuse_contradictions(
    *,
    image: bool,
    api: Api,
    rate: float | None,
    html: Path | None,
    lengths: str | None,
    repo: str | None,
    first: int,
    last: int,
) -> None:
    from modelctl.errors import InputError

    for wrong, message, remedy in (
        (image and api != "chat", "--image needs --api chat", "add --api chat, or take --image away"),
        (rate is not None and html is not None, "--html draws a sweep, and --rate makes none", "take --html away"),
        (
            rate is not None and lengths is not None,
            "--lengths follows a sweep, and --rate makes none",
            "take --lengths or --rate away",
        ),
        (
            repo is not None and lengths is None,
            "--repo says the KV use of lengths",
            "add --lengths auto, or take --repo away",
        ),
        (
            lengths is not None and api != "completions",
            f"--lengths asks for completions, not {api}",
            "take --lengths or --api away",
        ),
        (last < first, f"--to {last} is under --from {first}", f"give --to {first} or more"),
    ):
        if wrong:
            raise InputError(message, remedy=remedy)


def _sweep(
    endpoint: Endpoint,
    plan: SweepPlan,
    out: Path,
    *,
    lengths: str | None,
    repo: str | None,
    json_target: str | None,
    html: Path | None,
    quiet: bool,
) -> int:
    from modelctl.cli.output import console, write_json
    from modelctl.cli.progress import shown
    from modelctl.cli.stress_lengths import parse_lengths, print_lengths, walk_lengths, with_computed
    from modelctl.cli.stress_page import stress_page
    from modelctl.cli.stress_text import as_json, print_sweep
    from modelctl.files import write_whole
    from modelctl.page.charts import require_charts
    from modelctl.serving.sweep_record import SweepRecord
    from modelctl.serving.sweep_run import sweep
    from modelctl.sizing.peek import peek

    answer = plan.answer_tokens
    wanted = None if lengths is None else parse_lengths(lengths, endpoint, answer_tokens=answer)
    config = None if repo is None else peek(repo, Path.cwd()).config()
    if html:
        require_charts()  # before an hour of load, not after it
    record, seen = SweepRecord(folder=out), None
    with shown(quiet=quiet) as progress:
        result = sweep(endpoint, plan, record, progress=progress)
        if wanted is not None:
            seen = walk_lengths(endpoint, wanted, out, answer_tokens=answer, seed=plan.seed, progress=progress)
    if seen is not None and config is not None:
        seen = with_computed(seen, config, endpoint)
    if html:
        write_whole(html, stress_page(endpoint, plan, result, record, seen))
    if json_target:
        write_json(json_target, as_json(endpoint, plan, result, seen))
    if json_target != "-":
        print_sweep(endpoint, plan, result, console())
        if seen is not None:
            print_lengths(seen, console())
    return 0 if _measured(result) else 3


def _at_rate(endpoint: Endpoint, plan: LoadPlan, out: Path, *, json_target: str | None, quiet: bool) -> int:
    from modelctl.cli.output import console, write_json
    from modelctl.cli.progress import shown
    from modelctl.cli.stress_rate import as_json, client_fault, print_rate, run_at_rate

    with shown(quiet=quiet) as progress:
        result = run_at_rate(endpoint, plan, out, progress=progress)
    if json_target:
        write_json(json_target, as_json(endpoint, result))
    if json_target != "-":
        print_rate(endpoint, result, console())
    answered = any(row.failure is None for row in result.rows)
    return 0 if answered and client_fault(result) is None else 3


def _doubled(first: int, last: int) -> tuple[int, ...]:
    found = [first]
    while found[-1] < last:
        found.append(min(last, 2 * found[-1]))
    return tuple(found)


def _measured(result: SweepResult) -> bool:
    return any(stage.counts for stage in result.stages)
