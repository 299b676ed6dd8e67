from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modelctl.checks.base import Observation
from modelctl.checks.concurrency import CHECK, ConcurrencyLimits
from modelctl.checks.stress.knee import measure_sweep, sweep_plan
from modelctl.checks.stress.session import Notes
from modelctl.errors import CannotDecideError
from modelctl.model.release import Serving
from modelctl.serving.command import gpu_devices
from modelctl.serving.endpoint import Endpoint
from modelctl.serving.engine import EngineRefusedError
from modelctl.serving.sweep import Stage
from modelctl.serving.sweep_record import SweepRecord
from modelctl.serving.sweep_run import SweepResult
from tests.support.engine import FaultEngine, Faults, fault_engine
from tests.support.models import embedding_model, picture_model, tiny_llama
from tests.support.stress import KeptEvidence, measured, observe, reasons, rules

LIMITS = ConcurrencyLimits(
    streams=8,
    duration_s=0.4,
    ramp_s=0.1,
    prompt_tokens=64,
    answer_tokens=16,
    max_stall_s=60,
    request_time_limit_s=60,
    scrape_s=0.05,
    min_achieved_share=0.25,
    max_client_lag_s=30,
    code_requests=0,
    sweep_streams=(),
)
CODES = LIMITS.model_copy(update={"code_requests": 2})
SERVING = Serving(max_model_len=512, max_num_seqs=128)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault engine dies at once; nothing is gained by waiting for it. A busy machine reads metrics seldom
    and late, which is no fault of what is tested here."""
    monkeypatch.setattr("modelctl.checks.stress.session.DYING_S", 0.1)
    monkeypatch.setattr("modelctl.serving.closed_loop.RETRY_S", 0.05)
    monkeypatch.setattr("modelctl.checks.stress.judge._MIN_READINGS_SHARE", 0.2)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("model") / "m", max_positions=512)


def observed(endpoint: Endpoint, limits: ConcurrencyLimits = LIMITS, **how: Any) -> Observation:
    """What the check sees once its load is long enough for this machine, which may be busy: each stream was answered
    several times, or something was found."""
    for duration_s in (limits.duration_s, 4.0, 20.0):
        longer = limits.model_copy(update={"duration_s": duration_s})
        seen = observe(CHECK, longer, endpoint, serving=SERVING, **how)
        if rules(seen) or seen.coverage[0].total >= 4 * limits.streams:
            break
    return seen


@pytest.fixture
def run(tmp_path: Path, model: Path) -> Iterator[object]:
    def run_with(limits: ConcurrencyLimits = LIMITS, **faults: object) -> Observation:
        with fault_engine(tmp_path, **faults) as engine:
            return observed(engine.endpoint, limits, model=model)

    return run_with


def test_a_good_engine_passes_with_its_figures(tmp_path: Path, model: Path) -> None:
    evidence = KeptEvidence()
    with FaultEngine(tmp_path) as engine:
        seen = observed(engine.endpoint, model=model, evidence=evidence)
    assert (rules(seen), reasons(seen)) == ([], "")
    assert seen.coverage[0].seen == seen.coverage[0].total >= 8
    assert measured(seen, "waiting-max") == 0
    assert measured(seen, "kv-blocks-needed") == 8 * 5
    assert 0 < float(str(measured(seen, "ttft-p50"))) < float(str(measured(seen, "ttft-p99"))) + 1e-9
    assert float(str(measured(seen, "achieved-streams"))) > 2
    ttft = next(item for item in seen.measurements if item.name == "ttft-p95")
    assert ttft.parameters["streams"] == 8
    assert ttft.parameters["prompt_tokens"] == 64
    assert set(evidence.files) == {"requests.jsonl.gz", "metrics.jsonl.gz"}


@pytest.mark.parametrize(
    ("faults", "rule"),
    [
        ({"waits_over": 2}, "concurrency.waiting"),
        ({"stalls_after": 4}, "concurrency.stall"),
        ({"stream_error": True}, "concurrency.failed-requests"),
        ({"no_usage": True}, "concurrency.failed-requests"),
        ({"fails_over": 10}, "concurrency.failed-requests"),
        ({"babbles_over_streams": 4}, "concurrency.degenerate"),
        ({"preempts_over_streams": 4}, "concurrency.preempted"),
        ({"dies_at": 80}, "concurrency.engine-died"),
    ],
)
def test_a_fault_is_a_finding(run: object, faults: dict[str, object], rule: str) -> None:
    assert callable(run)
    limits = LIMITS.model_copy(update={"max_stall_s": 3.0}) if "stalls_after" in faults else LIMITS
    assert rule in rules(run(limits, **faults))


def test_an_error_inside_a_good_stream_counts_every_request_as_failed(run: object) -> None:
    assert callable(run)
    seen = run(stream_error=True)
    found = next(item for item in seen.findings if item.rule == "concurrency.failed-requests")
    total = measured(seen, "requests")
    assert f"{total} of {total} requests failed ({total} stream-error)" in found.message
    assert "the engine core has died" in found.message
    assert seen.coverage[0].seen == 0


def test_fewer_waiting_than_the_limit_pass_and_as_many_do_not(tmp_path: Path, model: Path) -> None:
    # 8 streams on 4 seats: 4 wait, whenever no stream is between two requests.
    with FaultEngine(tmp_path, Faults(waits_over=4), token_s=0.01) as engine:
        found = [
            rules(observed(engine.endpoint, limits, model=model))
            for limits in (LIMITS.model_copy(update={"max_waiting": waiting}) for waiting in (5, 4))
        ]
    assert found == [[], ["concurrency.waiting"]]


def test_babble_that_is_the_same_alone_is_the_models_habit(run: object) -> None:
    assert callable(run)
    assert rules(run(babbles_always=True)) == []


@pytest.mark.slow
def test_every_answer_has_the_code_of_its_own_prompt(run: object) -> None:
    assert callable(run)
    seen = run(CODES)
    assert (rules(seen), reasons(seen)) == ([], "")
    assert measured(seen, "own-code-share") == 1
    assert (measured(seen, "mixed-up-answers"), measured(seen, "lost-codes-share")) == (0, 0)


def test_an_answer_with_another_prompts_code_is_cross_talk(run: object) -> None:
    assert callable(run)
    seen = run(CODES, mixes_up_over_streams=4)
    assert rules(seen) == ["concurrency.cross-talk"]
    assert re.search(r"the prompt with the code '\w+ \w+ \d{4}' was answered with '", seen.findings[0].message)
    assert int(str(measured(seen, "mixed-up-answers"))) > 0


@pytest.mark.slow
def test_codes_that_are_lost_under_load_and_not_alone_are_cross_talk(run: object) -> None:
    assert callable(run)
    seen = run(CODES, loses_over_streams=4)
    assert rules(seen) == ["concurrency.cross-talk"]
    assert "lack the code of their own prompt under load and have it alone" in seen.findings[0].message


@pytest.mark.slow
def test_a_model_that_copies_no_code_is_not_judged_by_codes_and_the_report_says_so(run: object) -> None:
    assert callable(run)
    seen = run(CODES, never_copies=True)
    assert (rules(seen), reasons(seen)) == ([], "")
    assert measured(seen, "own-code-share") is None
    assert any("cross-talk was not judged: alone this model repeats 0 of 8 codes" in line for line in seen.warnings)


def test_an_embedding_model_is_asked_for_vectors(tmp_path: Path) -> None:
    model = embedding_model(tmp_path / "model", max_positions=512)
    limits = CODES.model_copy(update={"sweep_streams": (1, 2), "max_ttft_p95_s": 60})
    with fault_engine(tmp_path, embeds_only=True) as engine:
        seen = observed(engine.endpoint, limits, model=model)
        assert all(len(body["input"]) == 64 for body in engine.requests)
    assert (rules(seen), reasons(seen)) == ([], "")
    latency = next(item for item in seen.measurements if item.name == "latency-p95")
    assert latency.parameters["api"] == "embeddings"
    assert measured(seen, "ttft-p95") == latency.value
    assert float(str(measured(seen, "throughput"))) > 0
    assert any("neither cross-talk nor a sweep was tried" in line for line in seen.warnings)


@pytest.mark.slow
def test_an_engine_that_counts_other_tokens_of_vectors_is_undecided(tmp_path: Path) -> None:
    model = embedding_model(tmp_path / "model", max_positions=512)
    with fault_engine(tmp_path, embeds_only=True, miscounts=1.5) as engine:
        seen = observe(CHECK, LIMITS, engine.endpoint, model=model, serving=SERVING)
    assert "one is wrong, or others use it" in reasons(seen)


@pytest.mark.slow
def test_the_sweep_finds_the_knee_and_leaves_nothing_in_the_cache(tmp_path: Path, model: Path) -> None:
    cache = tmp_path / "cache"
    # Tokens of 20 ms: what two slots give is bound by waiting, whatever else this machine computes meanwhile. Sixteen
    # streams pay when they give a third more than two.
    limits = LIMITS.model_copy(
        update={"answer_tokens": 8, "sweep_streams": (1, 2, 16), "sweep_seconds": 1.0, "sweep_rounds": 2}
    )
    with FaultEngine(tmp_path, Faults(waits_over=2), token_s=0.02) as engine:
        evidence = KeptEvidence()
        seen = observe(CHECK, limits, engine.endpoint, model=model, serving=SERVING, evidence=evidence, cache=cache)
    knee = next(item for item in seen.measurements if item.name == "knee")
    assert knee.value == 2
    assert knee.parameters["reached"] is True
    assert knee.parameters["tried_to"] == 16
    assert {"sweep-stages.jsonl", "sweep-sweep.json", "sweep-requests-000.jsonl.gz"} <= set(evidence.files)
    assert list((cache / "sweeps").iterdir()) == []


@pytest.mark.slow
def test_a_sweep_that_was_interrupted_goes_on_behind_its_last_stage(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    limits = LIMITS.model_copy(update={"sweep_streams": (1, 2), "sweep_seconds": 0.5, "sweep_rounds": 2})

    def interrupted(record: SweepRecord, stage: Stage, result: object) -> None:
        if stage.number == 2:
            raise KeyboardInterrupt
        keep(record, stage, result)

    with FaultEngine(tmp_path) as engine:
        keep = SweepRecord.keep
        monkeypatch.setattr(SweepRecord, "keep", interrupted)
        with pytest.raises(KeyboardInterrupt):
            observe(CHECK, limits, engine.endpoint, model=model, serving=SERVING, cache=cache)
        monkeypatch.setattr(SweepRecord, "keep", keep)
        seen = observe(CHECK, limits, engine.endpoint, model=model, serving=SERVING, cache=cache)
    stages = [item.parameters for item in seen.measurements if item.name == "sweep-throughput"]
    assert [stage["of_an_earlier_run"] for stage in stages] == [True, True, False, False]


def test_a_sweep_that_measures_nothing_is_undecided(tmp_path: Path, model: Path) -> None:
    result = SweepResult(stages=(), steps=(), knee=None)
    notes = Notes(check="concurrency")
    limits = LIMITS.model_copy(update={"sweep_streams": (4, 1, 4)})
    plan = sweep_plan(limits, FaultEngine(tmp_path).endpoint)
    assert plan.streams == (1, 4)
    measure_sweep(plan, result, notes, earlier=0)
    assert [item.reason for item in notes.undecided] == ["no stage of the sweep counts: the knee is not known"]


def test_what_the_engine_does_not_say_of_itself_is_named(run: object) -> None:
    assert callable(run)
    seen = run()
    assert measured(seen, "engine-kv-pool") == 1000
    assert measured(seen, "engine-max-model-len") == 512
    assert measured(seen, "engine-attention-backend") is None
    assert any("does not say" in line and "its attention backend" in line for line in seen.warnings)


def test_without_metrics_it_is_undecided_not_passed(run: object) -> None:
    assert callable(run)
    seen = run(no_metrics=True)
    assert rules(seen) == []
    for words in ("the queue", "preemptions", "count its tokens"):
        assert words in reasons(seen)


def test_the_metric_names_of_earlier_releases_are_known(run: object) -> None:
    assert callable(run)
    seen = run(old_names=True)
    assert (rules(seen), reasons(seen)) == ([], "")
    assert measured(seen, "kv-usage-max") is not None


def test_a_server_that_counts_other_tokens_is_undecided(run: object) -> None:
    assert callable(run)
    seen = run(miscounts=1.5)
    assert "one is wrong, or others use it" in reasons(seen)


def test_prefix_cache_hits_decide_nothing(run: object) -> None:
    assert callable(run)
    seen = run(cached_share=0.5)
    assert measured(seen, "prefix-cache-hit-rate") == 0.5
    assert rules(seen) == []
    assert "50.0% prefix cache hits though every prompt is unique" in reasons(seen)
    assert reasons(run(cached_share=0.005)) == ""


def test_a_chat_may_share_what_its_template_puts_before_each_prompt(tmp_path: Path) -> None:
    model = picture_model(tmp_path / "m", max_positions=512)
    with fault_engine(tmp_path, cached_share=0.5) as engine:
        seen = observed(engine.endpoint, LIMITS.model_copy(update={"images": True}), model=model)
    assert reasons(seen) == ""
    assert any("50.0% prefix cache hits" in words for words in seen.warnings)


def test_slow_answers_are_a_finding_only_when_the_policy_limits_them(run: object) -> None:
    assert callable(run)
    strict = LIMITS.model_copy(update={"max_ttft_p95_s": 0.0001, "max_tpot_p95_s": 0.0001})
    assert rules(run(strict)) == ["concurrency.ttft", "concurrency.tpot"]


def test_a_late_client_makes_times_undecided_and_not_the_models_fault(run: object) -> None:
    assert callable(run)
    late = LIMITS.model_copy(update={"max_client_lag_s": 1e-9, "max_ttft_p95_s": 0.0001})
    seen = run(late)
    assert rules(seen) == []
    assert "load generator was late" in reasons(seen)


def test_too_few_seats_are_a_sizing_finding_before_any_load(tmp_path: Path, model: Path) -> None:
    with FaultEngine(tmp_path) as engine:
        seen = observe(CHECK, LIMITS, engine.endpoint, model=model, serving=Serving(max_num_seqs=6))
        assert engine.requests == []
    assert rules(seen) == ["concurrency.sizing"]
    assert "max_num_seqs is 6, so 2 of 8 streams would wait" in seen.findings[0].message


def test_too_small_a_pool_is_a_sizing_finding_with_the_arithmetic(tmp_path: Path, model: Path) -> None:
    with FaultEngine(tmp_path, blocks=31) as engine:
        seen = observe(CHECK, LIMITS, engine.endpoint, model=model, serving=SERVING)
        assert engine.requests == []
    assert rules(seen) == ["concurrency.sizing"]
    # 80 tokens in blocks of 16 are 5; 2 layers, 2 KV heads of 16, keys and values in 2 bytes: 4096 a block.
    assert (
        "8 * 5 = 40 KV blocks of 4096 bytes; the engine's pool has 30, enough for 6 streams" in seen.findings[0].message
    )


def test_a_restart_under_load_is_a_finding(tmp_path: Path, model: Path) -> None:
    class Restarting(FaultEngine):
        async def _completions(self, request):  # type: ignore[no-untyped-def]
            if len(self.requests) == 5:
                self.restart()
            return await super()._completions(request)

    with Restarting(tmp_path, Faults()) as engine:
        seen = observe(CHECK, LIMITS, engine.endpoint, model=model, serving=SERVING)
    assert "concurrency.restarted" in rules(seen)


def test_an_engine_of_ours_without_a_gpu_decides_nothing_in_production(tmp_path: Path, model: Path) -> None:
    if gpu_devices():
        pytest.fail("this test describes a machine without a GPU; run it there")
    managed = dataclasses.replace(FaultEngine(tmp_path).endpoint, managed=True)
    with pytest.raises(CannotDecideError, match="no GPU"):
        observe(CHECK, LIMITS, managed, model=model, serving=SERVING)


def test_requests_longer_than_the_engine_serves_are_the_policys_fault(tmp_path: Path, model: Path) -> None:
    limits = LIMITS.model_copy(update={"prompt_tokens": 600})
    with FaultEngine(tmp_path) as engine, pytest.raises(CannotDecideError, match="616 tokens"):
        observe(CHECK, limits, engine.endpoint, model=model, serving=SERVING)


def test_an_engine_that_cannot_load_the_model_is_a_finding(tmp_path: Path, model: Path) -> None:
    error = EngineRefusedError("the engine cannot load this model", log=tmp_path / "engine.log")
    assert rules(observe(CHECK, LIMITS, error, model=model, serving=SERVING)) == ["concurrency.engine-cannot-load"]


def test_production_numbers_are_the_defaults() -> None:
    limits = ConcurrencyLimits()
    assert (limits.streams, limits.duration_s, limits.max_waiting, limits.require_gpu) == (100, 1800, 5, True)


def test_a_vision_language_model_gets_pictures_where_the_policy_asks(tmp_path: Path) -> None:
    model = picture_model(tmp_path / "m", max_positions=512)
    limits = CODES.model_copy(update={"images": True, "sweep_streams": (1, 2), "sweep_seconds": 0.3, "sweep_rounds": 1})
    with FaultEngine(tmp_path) as engine:
        seen = observed(engine.endpoint, limits, model=model, cache=tmp_path / "cache")
        chats = [body["messages"][0]["content"] for body in engine.requests if "messages" in body]
    assert (rules(seen), reasons(seen)) == ([], "")
    assert measured(seen, "image-tokens") == 16
    assert (
        measured(seen, "kv-blocks-needed") == 8 * 6
    )  # 64 of text, 16 of the picture, 16 of answer: 96 in blocks of 16
    pictures = [parts[0]["image_url"]["url"] for parts in chats if isinstance(parts, list)]
    assert len(set(pictures)) > 8
    assert len(pictures) > 0.9 * len(chats) - 5  # the question and two samples of text go without
    assert measured(seen, "mixed-up-answers") == 0


@pytest.mark.parametrize(("images", "asked"), [(False, "prompt"), (True, "messages")])
def test_pictures_are_the_policys_choice(tmp_path: Path, images: bool, asked: str) -> None:
    model = picture_model(tmp_path / "m", max_positions=512)
    with FaultEngine(tmp_path) as engine:
        observe(CHECK, LIMITS.model_copy(update={"images": images}), engine.endpoint, model=model, serving=SERVING)
    assert asked in engine.requests[-1]


def test_a_model_without_eyes_gets_no_picture(tmp_path: Path, model: Path) -> None:
    with FaultEngine(tmp_path) as engine:
        observe(CHECK, LIMITS.model_copy(update={"images": True}), engine.endpoint, model=model, serving=SERVING)
    assert all("messages" not in body for body in engine.requests)


def test_an_engine_that_drops_pictures_decides_nothing(tmp_path: Path) -> None:
    model = picture_model(tmp_path / "m", max_positions=512)
    limits = LIMITS.model_copy(update={"images": True})
    with fault_engine(tmp_path, drops_images=True) as engine, pytest.raises(CannotDecideError, match="it is dropped"):
        observe(CHECK, limits, engine.endpoint, model=model, serving=SERVING)
