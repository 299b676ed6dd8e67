from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from modelctl.checks.base import Observation
from modelctl.checks.long_context import CHECK, LongContextLimits, lengths_to_try
from modelctl.errors import CannotDecideError
from modelctl.model.release import Serving
from modelctl.serving.engine import EngineRefusedError
from modelctl.serving.memory import MemorySource, MemoryWatch
from tests.support.engine import FaultEngine, Faults, fault_engine
from tests.support.models import embedding_model, tiny_llama
from tests.support.progress import Notes
from tests.support.stress import KeptEvidence, measured, observe, reasons, rules

LIMITS = LongContextLimits(
    fractions=(0.25, 0.5),
    min_length=64,
    prompts_per_length=2,
    answer_tokens=16,
    request_time_limit_s=60,
    scrape_s=0.005,
)
SERVING = Serving(max_model_len=512)
TOKEN_S = 0.003
"""So that an answer lasts over several readings of the metrics."""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault engine dies at once; nothing is gained by waiting for it."""
    monkeypatch.setattr("modelctl.checks.stress.session.DYING_S", 0.1)
    monkeypatch.setattr("modelctl.serving.closed_loop.RETRY_S", 0.05)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("model") / "m", max_positions=512)


@pytest.fixture
def run(tmp_path: Path, model: Path) -> Iterator[object]:
    def run_with(limits: LongContextLimits = LIMITS, **faults: object) -> Observation:
        with FaultEngine(tmp_path, Faults(**faults), token_s=TOKEN_S) as engine:
            return observe(CHECK, limits, engine.endpoint, model=model, serving=SERVING)

    return run_with


def test_a_good_engine_passes_with_every_length_covered(tmp_path: Path, model: Path) -> None:
    evidence = KeptEvidence()
    with FaultEngine(tmp_path, token_s=TOKEN_S) as engine:
        seen = observe(CHECK, LIMITS, engine.endpoint, model=model, serving=SERVING, evidence=evidence)
    assert rules(seen) == []
    assert reasons(seen) == ""
    assert (seen.coverage[0].seen, seen.coverage[0].total) == (3, 3)
    assert measured(seen, "longest-answered") == 512
    computed = {m.parameters["length"]: m.value for m in seen.measurements if m.name == "kv-blocks-computed"}
    peaks = {m.parameters["length"]: m.value for m in seen.measurements if m.name == "kv-blocks-peak"}
    assert computed == {128: 8, 256: 16, 512: 32}
    assert all(0.9 * need <= float(str(peaks[length])) <= need for length, need in computed.items())
    rows = [json.loads(line) for line in gzip.decompress(evidence.files["requests.jsonl.gz"]).splitlines()]
    assert [row["prompt_tokens"] for row in rows][:2] == [112, 112]


def test_every_prompt_is_unique_from_its_first_block_on(tmp_path: Path, model: Path) -> None:
    with FaultEngine(tmp_path) as engine:
        observe(CHECK, LIMITS, engine.endpoint, model=model, serving=SERVING)
        beginnings = [tuple(body["prompt"][:16]) for body in engine.requests]
    assert len(beginnings) >= 7
    assert len(set(beginnings)) == len(beginnings)


@pytest.mark.parametrize(
    ("faults", "rule"),
    [
        ({"dies_at": 300}, "long-context.engine-died"),
        ({"rejects_over": 400}, "long-context.rejected"),
        ({"fails_over": 400}, "long-context.failed-request"),
        ({"stalls_after": 4}, "long-context.failed-request"),
        ({"stream_error": True}, "long-context.failed-request"),
        ({"no_done": True}, "long-context.failed-request"),
        ({"babbles_over_length": 300}, "long-context.degenerate"),
        ({"kv_factor": 2.0}, "long-context.kv-use"),
        ({"preempts_over_streams": 0}, "long-context.preempted"),
        ({"accepts_over_maximum": True}, "long-context.over-maximum"),
    ],
)
def test_a_fault_is_a_finding(run: object, faults: dict[str, object], rule: str) -> None:
    assert callable(run)
    limits = LIMITS.model_copy(update={"request_time_limit_s": 0.4}) if "stalls_after" in faults else LIMITS
    assert rule in rules(run(limits, **faults))


def test_an_answer_that_is_cut_to_fit_is_a_length_that_is_not_served(run: object) -> None:
    assert callable(run)
    seen = run(LIMITS.model_copy(update={"cliff_step": 1}), shortens_over=400)
    assert rules(seen) == ["long-context.truncated"]
    assert "16 tokens of answer were asked for at 512 tokens, 1 came" in seen.findings[0].message
    assert "; 400 tokens still work, 401 do not" in seen.findings[0].message


def test_a_failure_says_at_which_length_and_stops_there(run: object) -> None:
    assert callable(run)
    seen = run(rejects_over=200)
    assert "at 256 tokens of a stated maximum of 512" in seen.findings[0].message
    assert (seen.coverage[0].seen, seen.coverage[0].total) == (2, 3)
    assert seen.coverage[0].excluded == ("512 tokens: not tried after the failure before",)
    assert measured(seen, "longest-answered") == 192
    assert "; 192 tokens still work, 208 do not" in seen.findings[0].message
    assert seen.findings[0].remedy == "state a max_model_len under 208, or start the engine with one of 512"
    cliff = next(item for item in seen.measurements if item.name == "cliff")
    assert (cliff.value, cliff.parameters["works"], cliff.parameters["lengths_tried"]) == (208, 192, 3)


@pytest.mark.slow
def test_the_cliff_is_found_to_the_step_that_the_policy_asks_for(run: object) -> None:
    assert callable(run)
    seen = run(LIMITS.model_copy(update={"cliff_step": 1}), rejects_over=200)
    assert "; 200 tokens still work, 201 do not" in seen.findings[0].message
    seen = run(LIMITS.model_copy(update={"cliff_step": 1}), fails_over=400)
    assert "; 400 tokens still work, 401 do not" in seen.findings[0].message
    assert measured(seen, "longest-answered") == 400


@pytest.mark.slow
def test_lengths_tried_for_the_cliff_are_bounded(run: object) -> None:
    assert callable(run)
    seen = run(LIMITS.model_copy(update={"cliff_step": 1, "max_cliff_lengths": 2}), rejects_over=200)
    assert "192 tokens still work, 224 do not (not narrowed further: 2 lengths were tried" in seen.findings[0].message


def test_a_dead_engine_is_not_asked_for_its_cliff(run: object) -> None:
    assert callable(run)
    seen = run(dies_at=200)
    assert "128 tokens still work, 256 do not (not narrowed further: the engine is dead)" in seen.findings[0].message
    assert measured(seen, "longest-answered") == 128


def test_an_engine_that_dies_on_the_way_to_the_cliff_ends_the_search(run: object) -> None:
    assert callable(run)
    seen = run(rejects_over=200, dies_between=(190, 195))
    assert rules(seen) == ["long-context.engine-died", "long-context.rejected"]
    assert "128 tokens still work, 192 do not (not narrowed further: the engine died)" in seen.findings[1].message


@pytest.mark.slow
def test_strange_answers_have_a_cliff_too_and_do_not_end_the_walk(run: object) -> None:
    assert callable(run)
    seen = run(babbles_over_length=300)
    assert "; 304 tokens still work, 320 do not" in seen.findings[0].message
    assert (seen.coverage[0].seen, seen.coverage[0].total) == (3, 3)


def test_one_token_over_the_maximum_must_be_refused_even_when_the_prompt_fits(run: object) -> None:
    assert callable(run)
    seen = run(accepts_over_maximum=True)
    assert "a request of 513 tokens, prompt and answer, was answered" in seen.findings[0].message


def test_latency_over_the_length_is_told_while_it_is_measured(tmp_path: Path, model: Path) -> None:
    progress = Notes()
    with FaultEngine(tmp_path, token_s=TOKEN_S) as engine:
        seen = observe(CHECK, LIMITS, engine.endpoint, model=model, serving=SERVING, progress=progress)
    assert [line.split(" tokens: first token after ")[0] for line in progress.lines] == ["128", "256", "512"]
    assert all("ms a token" in line and "KV blocks" in line for line in progress.lines)
    assert {"ttft-growth", "tpot-growth"} <= {item.name for item in seen.measurements}


def test_memory_that_grows_with_the_length_is_warned_of(monkeypatch: pytest.MonkeyPatch, run: object) -> None:
    assert callable(run)
    readings = iter([1000, 1000, 1050, 1200])
    used = MemorySource(name="a test", read=lambda: next(readings) << 20)
    monkeypatch.setattr("modelctl.checks.long_context.memory_source", lambda _: used)
    only_when_asked = partial(MemoryWatch, interval_s=600.0)
    monkeypatch.setattr("modelctl.checks.long_context.MemoryWatch", only_when_asked)
    seen = run()
    assert rules(seen) == []
    assert measured(seen, "memory-peak") == 1200
    assert measured(seen, "memory-growth") == 0.2
    assert any("grew by 20.0%, from 1,000 MiB at 128 tokens to 1,200 MiB at 512" in line for line in seen.warnings)


def test_an_embedding_model_is_asked_for_vectors_of_every_length(tmp_path: Path) -> None:
    model = embedding_model(tmp_path / "model", max_positions=512)
    with fault_engine(tmp_path, embeds_only=True) as engine:
        seen = observe(CHECK, LIMITS, engine.endpoint, model=model, serving=SERVING)
        sent = [len(body["input"]) for body in engine.requests]
    assert (rules(seen), reasons(seen)) == ([], "")
    assert sent == [128, 128, 256, 256, 512, 512, 513, 64]
    assert measured(seen, "longest-answered") == 512
    assert any("KV use was not judged" in line for line in seen.warnings)


def test_an_embedding_engine_without_tokenize_is_asked_for_its_own_counts(tmp_path: Path) -> None:
    model = embedding_model(tmp_path / "model", max_positions=512)
    with fault_engine(tmp_path, embeds_only=True, no_tokenize=True) as engine:
        seen = observe(CHECK, LIMITS, engine.endpoint, model=model, serving=SERVING)
    assert (rules(seen), reasons(seen)) == ([], "")


@pytest.mark.slow
def test_the_cliff_of_an_embedding_model_is_found(tmp_path: Path) -> None:
    model = embedding_model(tmp_path / "model", max_positions=512)
    with fault_engine(tmp_path, embeds_only=True, fails_over=300) as engine:
        seen = observe(CHECK, LIMITS, engine.endpoint, model=model, serving=SERVING)
    assert rules(seen) == ["long-context.failed-request"]
    assert "; 288 tokens still work, 304 do not" in seen.findings[0].message


def test_an_engine_that_is_not_ours_has_no_memory_figure(run: object) -> None:
    assert callable(run)
    seen = run()
    assert measured(seen, "memory-peak") is None
    assert any("memory was not read" in line for line in seen.warnings)


def test_babble_at_every_length_is_the_models_habit(run: object) -> None:
    assert callable(run)
    assert rules(run(babbles_always=True)) == []


def test_without_metrics_it_is_undecided_not_passed(run: object) -> None:
    assert callable(run)
    seen = run(no_metrics=True)
    assert rules(seen) == []
    assert "does not report preemptions" in reasons(seen)
    assert "does not report its KV use" in reasons(seen)


def test_the_metric_names_of_earlier_releases_are_known(run: object) -> None:
    assert callable(run)
    seen = run(old_names=True)
    assert (rules(seen), reasons(seen)) == ([], "")


def test_a_cache_that_is_not_computed_is_undecided_unless_the_policy_says_otherwise(tmp_path: Path) -> None:
    model = tiny_llama(tmp_path / "model", max_positions=512)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"mamba_d_state": 16}))
    with FaultEngine(tmp_path, token_s=TOKEN_S) as engine:
        strict = observe(CHECK, LIMITS, engine.endpoint, model=model, serving=SERVING)
        lax = LIMITS.model_copy(update={"require_computed_kv": False})
        warned = observe(CHECK, lax, engine.endpoint, model=model, serving=SERVING)
    assert "KV cache of this model is not computed" in reasons(strict)
    assert reasons(warned) == ""
    assert any("not computed" in words for words in warned.warnings)


def test_without_tokenize_lengths_are_approximate_and_said_to_be(run: object) -> None:
    assert callable(run)
    seen = run(no_tokenize=True)
    assert (rules(seen), reasons(seen)) == ([], "")
    assert any("no /tokenize" in words for words in seen.warnings)


def test_an_engine_that_cannot_load_the_model_is_a_finding_and_its_log_is_kept(tmp_path: Path, model: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("ValueError: no")
    error = EngineRefusedError("the engine cannot load this model: ValueError: no", log=log)
    evidence = KeptEvidence()
    seen = observe(CHECK, LIMITS, error, model=model, serving=SERVING, evidence=evidence)
    assert evidence.files == {"engine.log": b"ValueError: no"}
    assert rules(seen) == ["long-context.engine-cannot-load"]
    assert "ValueError: no" in seen.findings[0].message


def test_no_engine_at_all_is_undecided(model: Path) -> None:
    with pytest.raises(CannotDecideError, match="no engine command"):
        observe(CHECK, LIMITS, CannotDecideError("no engine command is set"), model=model, serving=SERVING)


def test_the_maximum_is_always_tried_and_short_shares_are_lifted() -> None:
    assert lengths_to_try(LongContextLimits(), 8192) == (163, 819, 2048, 4096, 6144, 7372, 8192)
    assert lengths_to_try(LongContextLimits(), 131072)[-1] == 131072
    with pytest.raises(CannotDecideError, match="shortest length"):
        lengths_to_try(LongContextLimits(), 100)
