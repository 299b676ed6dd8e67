from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from modelctl.errors import CannotDecideError, InputError
from modelctl.progress import SILENT
from modelctl.serving.sweep import SweepPlan, steady_tokens
from modelctl.serving.sweep_record import SweepRecord
from modelctl.serving.sweep_run import sweep
from tests.support.command import modelctl
from tests.support.engine import FaultEngine, Faults
from tests.support.rows import request_row

PLAN = SweepPlan(
    streams=(1, 2, 4), repeats=2, stage_s=0.4, ramp_s=0.05, prompt_tokens=32, answer_tokens=16, scrape_s=0.1,
    exact_answer=True, seed=0, max_client_lag_s=30, min_achieved_share=0.25,
)  # fmt: skip


def test_tokens_count_by_the_share_of_the_answer_inside() -> None:
    row = request_row(first_token_s=1.0, last_token_s=3.0, completion_tokens=10)
    assert steady_tokens([row], 0.0, 4.0) == 10
    assert steady_tokens([row], 2.0, 4.0) == 5
    assert steady_tokens([row], 3.0, 4.0) == 0
    once = replace(row, last_token_s=1.0)
    assert (steady_tokens([once], 0.0, 2.0), steady_tokens([once], 1.5, 2.0)) == (10, 0)


def test_stages_are_in_rounds() -> None:
    assert list(PLAN.stages()) == [(0, 1, 0), (1, 2, 0), (2, 4, 0), (3, 1, 1), (4, 2, 1), (5, 4, 1)]


@pytest.mark.slow
def test_a_sweep_is_kept_goes_on_and_never_repeats_a_prompt(tmp_path: Path) -> None:
    record = SweepRecord(folder=tmp_path / "sweep")
    with FaultEngine(tmp_path) as engine:
        first = sweep(engine.endpoint, replace(PLAN), record, progress=SILENT)
        sent = len(engine.requests)
        again = sweep(engine.endpoint, PLAN, record, progress=SILENT)
        assert len(engine.requests) == sent
        stages = (record.folder / "stages.jsonl").read_text().splitlines(keepends=True)
        (record.folder / "stages.jsonl").write_text("".join(stages[:4]) + stages[4][:20])
        resumed = sweep(engine.endpoint, PLAN, record, progress=SILENT)
        prompts = [json.dumps(request["prompt"]) for request in engine.requests if "prompt" in request]
    assert again == first
    assert len(resumed.stages) == 6
    assert resumed.stages[:4] == first.stages[:4]
    assert len(record.requests(first.stages[2])) == first.stages[2].requests
    assert record.readings(first.stages[2])
    once = prompts[:sent]
    assert len(set(once)) == len(once)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strict", "why"),
    [
        ({"max_client_lag_s": 1e-9}, r"the load generator was late by .* s \(p99\); the limit is 1e-09 s"),
        ({"min_achieved_share": 7.0}, r"the load generator kept .* of 1 streams busy"),
    ],
)
def test_how_much_the_client_must_keep_up_is_the_plans(tmp_path: Path, strict: dict[str, float], why: str) -> None:
    plan = replace(PLAN, streams=(1,), repeats=1, **strict)  # type: ignore[arg-type]
    with FaultEngine(tmp_path) as engine:
        found = sweep(engine.endpoint, plan, SweepRecord(folder=tmp_path / "kept"), progress=SILENT)
    (stage,) = found.stages
    assert re.fullmatch(why, stage.why_not or "")
    assert found.knee is None


@pytest.mark.slow
def test_the_knee_of_an_engine_with_two_seats_is_two(tmp_path: Path) -> None:
    # Eight times the streams must gain a third to pay.
    plan = replace(PLAN, streams=(1, 2, 16), stage_s=1.0, answer_tokens=8)
    with FaultEngine(tmp_path, Faults(waits_over=2), token_s=0.02) as engine:
        found = sweep(engine.endpoint, plan, SweepRecord(folder=tmp_path / "kept"), progress=SILENT)
    assert found.knee is not None
    assert (found.knee.streams, found.knee.reached) == (2, True)
    assert 10 <= max(stage.waiting_max or 0 for stage in found.stages) <= 14


def test_another_sweeps_folder_is_refused(tmp_path: Path) -> None:
    record = SweepRecord(folder=tmp_path / "kept")
    with FaultEngine(tmp_path) as engine:
        record.open(engine.endpoint, PLAN)
        with pytest.raises(InputError, match="another plan"):
            record.open(engine.endpoint, replace(PLAN, repeats=5))
        with pytest.raises(InputError, match="another engine"):
            record.open(replace(engine.endpoint, model="other"), PLAN)
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "notes").touch()
        with pytest.raises(InputError, match="no sweep"):
            SweepRecord(folder=tmp_path / "full").open(engine.endpoint, PLAN)
        with pytest.raises(CannotDecideError, match="serves 512"):
            sweep(engine.endpoint, replace(PLAN, prompt_tokens=600), record, progress=SILENT)


@pytest.mark.slow
def test_the_command_prints_the_knee_and_writes_json(tmp_path: Path) -> None:
    with FaultEngine(tmp_path, Faults(waits_over=2), token_s=0.005) as engine:
        done = modelctl(
            "stress", f"unix:{engine.socket}", "--to", "4", "--rounds", "2", "--seconds", "0.4", "--ramp", "0.05",
            "--prompt-tokens", "32", "--answer-tokens", "16", "--json", "s.json", "--html", "s.html", cwd=tmp_path,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "TTFT p50 / p95" in done.stdout
    assert "knee" in done.stdout
    written = json.loads((tmp_path / "s.json").read_text())
    assert written["knee"]["streams"] in (1, 2, 4)
    assert len(written["stages"]) == 6
    page = (tmp_path / "s.html").read_text()
    for title in ("Throughput", "Time to first token", "Latency of whole requests", "KV cache in use over time"):
        assert title in page
    with gzip.open(tmp_path / "stress" / "requests-005.jsonl.gz", "rt") as stream:
        assert all(json.loads(line)["failure"] is None for line in stream)


@pytest.mark.slow
def test_a_stage_in_which_the_engine_went_away_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelctl.serving.closed_loop.RETRY_S", 0.02)
    record = SweepRecord(folder=tmp_path / "kept")
    with FaultEngine(tmp_path, Faults(dies_at=40)) as engine, pytest.raises(CannotDecideError, match="no connections"):
        sweep(engine.endpoint, PLAN, record, progress=SILENT)
    assert record.stages() == ()
    assert list(record.folder.glob("requests-000*"))
    with FaultEngine(tmp_path) as engine:
        again = sweep(engine.endpoint, PLAN, record, progress=SILENT)
    assert len(again.stages) == 6
    assert not any(stage.failed for stage in again.stages)


@pytest.mark.slow
def test_an_engine_that_fails_everything_is_not_measured(tmp_path: Path) -> None:
    with FaultEngine(tmp_path, Faults(stream_error=True)) as engine:
        done = modelctl(
            "stress", f"unix:{engine.socket}", "--to", "1", "--rounds", "1", "--seconds", "0.4", "--ramp", "0",
            "--prompt-tokens", "32", "--answer-tokens", "16", cwd=tmp_path,
        )  # fmt: skip
    assert done.returncode == 3
    assert "does not count" in done.stdout
