"""The sweep behind a load: 1, 2, 4 … streams, to say up to how many more streams pay, and how certain that is.

Its stages are kept in the cache under everything that moves them, so that a run which was interrupted goes on behind
the last finished stage. A sweep that came to its end is evidence and leaves the cache: the next run measures anew.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from modelctl.checks.base import CheckContext, Scalar
from modelctl.checks.stress.limits import LoadLimits, LoadLimitsT
from modelctl.checks.stress.session import Notes, api_of, exact_answers
from modelctl.errors import CannotDecideError
from modelctl.serving.bodies import Api
from modelctl.serving.endpoint import Endpoint
from modelctl.serving.sweep import SweepPlan
from modelctl.serving.sweep_record import ABOUT_NAME, STAGES_NAME, SweepRecord
from modelctl.serving.sweep_run import SweepResult, sweep

_RAMP_SHARE = 0.1
"""Of a stage's time: its streams start over it."""
_OWN_FLAGS = ("--uds", "--port", "--host")
"""Where an engine listens says nothing of how fast it is."""


def sweep_plan(limits: LoadLimits, endpoint: Endpoint, api: Api = "completions") -> SweepPlan:
    """The policy's sweep, by the interface of its load."""
    return SweepPlan(
        streams=tuple(sorted(set(limits.sweep_streams))),
        repeats=limits.sweep_rounds,
        stage_s=limits.sweep_seconds,
        ramp_s=limits.sweep_seconds * _RAMP_SHARE,
        prompt_tokens=limits.prompt_tokens,
        answer_tokens=limits.answer_tokens,
        scrape_s=min(limits.scrape_s, limits.sweep_seconds / 5),
        exact_answer=exact_answers(endpoint),
        seed=limits.seed,
        api=api,
        image=api == "chat",
        max_client_lag_s=limits.max_client_lag_s,
        min_achieved_share=limits.min_achieved_share,
    )


def record_folder(
    context: CheckContext[LoadLimitsT], endpoint: Endpoint, plan: SweepPlan, started_at: float | None
) -> Path:
    """Where this sweep is kept: a folder for what is served, by which engine, with which flags, and the plan.

    Of an engine that is not ours the flags are not known: `started_at` (seconds since 1970) tells one run of it from
    the next.
    """
    flags: Mapping[str, str] = {flag: value for flag, value in endpoint.flags.items() if flag not in _OWN_FLAGS}
    url = None if endpoint.managed else f"{endpoint.base_url} {endpoint.socket} {started_at}"
    about = [context.served.digest, endpoint.version, endpoint.model, url, flags, asdict(plan)]
    name = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:32]
    return context.cache / "sweeps" / name


def find_knee(
    context: CheckContext[LoadLimitsT], endpoint: Endpoint, notes: Notes, *, started_at: float | None
) -> None:
    """Run the sweep, add its figures, and keep its rows. What can't be measured is undecided."""
    plan = sweep_plan(context.limits, endpoint, api_of(context, images=context.limits.images))
    record = SweepRecord(folder=record_folder(context, endpoint, plan, started_at))
    earlier = len(record.stages())
    try:
        result = sweep(
            endpoint, plan, record, progress=context.progress, silence_limit_s=context.limits.request_time_limit_s
        )
    except CannotDecideError as error:
        notes.cannot(f"the sweep ended early: {error.message}", error.remedy)
        return
    measure_sweep(plan, result, notes, earlier=earlier)
    for path in sorted(record.folder.iterdir()):
        if path.name in (ABOUT_NAME, STAGES_NAME) or path.name.endswith(".jsonl.gz"):
            context.evidence.keep(f"sweep-{path.name}", path)
    shutil.rmtree(record.folder)


def measure_sweep(plan: SweepPlan, result: SweepResult, notes: Notes, *, earlier: int) -> None:
    """Add the knee with its certainty, and the throughput of every stage; the first `earlier` are of a run that was
    interrupted."""
    how: dict[str, Scalar] = {
        "rounds": plan.repeats,
        "stage_s": plan.stage_s,
        "prompt_tokens": plan.prompt_tokens,
        "answer_tokens": plan.answer_tokens,
        "seed": plan.seed,
    }
    for stage in result.stages:
        each: dict[str, Scalar] = {
            **how,
            "streams": stage.streams,
            "round": stage.repeat + 1,
            "counts": stage.counts,
            "of_an_earlier_run": stage.number < earlier,
        }
        notes.measure("sweep-throughput", stage.throughput, "tokens/s", each)
        if stage.why_not is not None:
            notes.warnings.append(f"sweep, {stage.streams} streams, round {stage.repeat + 1}: {stage.why_not}")
    for step in result.steps:
        notes.measure(
            "sweep-gain",
            step.gain,
            "",
            {**how, "from": step.below, "to": step.above, "lower": step.lower, "upper": step.upper},
        )
    if result.knee is None:
        notes.cannot("no stage of the sweep counts: the knee is not known", "see sweep-stages.jsonl in the evidence")
        return
    found = result.knee
    certainty: dict[str, Scalar] = {
        **how,
        "certain": found.certain,
        "reached": found.reached,
        "tried_to": plan.streams[-1],
    }
    notes.measure("knee", found.streams if found.reached else None, "streams", certainty)
    notes.measure("knee-throughput", found.throughput, "tokens/s", {**certainty, "streams": found.streams})
    if not found.reached:
        notes.warnings.append(f"no knee up to {plan.streams[-1]} streams: more still pay (concurrency.sweep_streams)")
    elif not found.certain:
        notes.warnings.append(
            f"the knee at {found.streams} streams is not certain: more rounds would tell (concurrency.sweep_rounds)"
        )
