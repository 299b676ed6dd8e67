"""The real CPU engine on the real small model: one start for the whole file, and the last test kills it.

Its pool of 9 blocks of 128 tokens holds what the tests ask for, except where one wants to see it run out. On two quiet
cores it reads some 100 tokens a second, so lengths are short. No test counts on that rate: how long a load lasts is
measured first.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from modelctl.checks import concurrency, long_context
from modelctl.checks.concurrency import ConcurrencyLimits
from modelctl.checks.long_context import LongContextLimits
from modelctl.isolation import Sandbox
from modelctl.model.release import Serving
from modelctl.model.tree import scan_tree
from modelctl.progress import SILENT
from modelctl.serving.adapters import served_adapter
from modelctl.serving.client import EngineClient
from modelctl.serving.command import BASE_NAME, SERVED_NAME
from modelctl.serving.endpoint import Endpoint
from modelctl.serving.engine import EngineRefusedError, start_engine
from modelctl.serving.models import choose_adapter
from modelctl.serving.prompts import prompt_maker
from modelctl.settings import Engine
from tests.support.models import tiny_llama, tiny_lora
from tests.support.stress import (
    KeptEvidence,
    OnceUnderWay,
    measured,
    observe,
    observe_until,
    reasons,
    rules,
    seconds_of_a_round,
)

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-engine" / "bin" / "python"
MODEL = ROOT / ".cache" / "models" / "SmolLM2-135M-Instruct"
SERVING = Serving(max_model_len=512, max_num_seqs=4, max_num_batched_tokens=512)
SETTINGS = Engine(
    command=f"{PYTHON} -m vllm.entrypoints.openai.api_server --model {{model}}",
    args=("--enforce-eager", "--dtype", "float32", "--num-gpu-blocks-override", "10"),
    env={"VLLM_CPU_KVCACHE_SPACE": "1"},
    start_timeout_s=1000,
)
LOAD = ConcurrencyLimits(
    streams=4,
    duration_s=10,
    scrape_s=2,
    ramp_s=1,
    prompt_tokens=64,
    answer_tokens=16,
    require_gpu=False,
    max_client_lag_s=30,
    min_achieved_share=0.25,
    max_stall_s=300,
    request_time_limit_s=300,
    code_requests=0,
    sweep_streams=(),
)


@contextmanager
def float32_engine(model: Path, serving: Serving, folder: Path) -> Iterator[Endpoint]:
    """The engine on a tiny model that is no text generator, in the numbers that every processor multiplies."""
    settings = SETTINGS.model_copy(update={"args": ("--enforce-eager", "--dtype", "float32")})
    with start_engine(
        scan_tree(model), serving, settings, sandbox=Sandbox(), folder=folder, progress=SILENT
    ) as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lora") / "adapter"
    return tiny_lora(folder, hidden=576, layers=30, rank=8, strength=0.2)


@pytest.fixture(scope="module")
def adapted(adapter: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    for needed in (PYTHON, MODEL / "config.json"):
        assert needed.exists(), f"{needed} is missing: run make setup"
    folder = tmp_path_factory.mktemp("engine")
    base = scan_tree(MODEL)
    served = served_adapter(scan_tree(adapter), base)
    with start_engine(
        base, SERVING, SETTINGS, sandbox=Sandbox(), folder=folder, progress=SILENT, adapter=served
    ) as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def engine(adapted: Endpoint) -> Endpoint:
    """The same engine, asked for the base: an adapter needs a start of its own as little as a base does."""
    return dataclasses.replace(adapted, model=BASE_NAME)


@pytest.fixture(scope="module")
def load(engine: Endpoint) -> ConcurrencyLimits:
    """The load, long enough for this machine: every stream is answered three times, and twice in a stage of a sweep."""
    round_s = seconds_of_a_round(engine, LOAD)
    return LOAD.model_copy(
        update={"duration_s": max(LOAD.duration_s, 3 * round_s), "sweep_seconds": max(3.0, 2 * round_s)}
    )


def test_it_gets_ready_and_says_who_it_is(engine: Endpoint) -> None:
    assert engine.managed
    assert engine.max_model_len == 512
    assert engine.version
    assert engine.log is not None
    assert engine.log.stat().st_size > 1000


def test_long_context_passes_and_kv_use_is_what_was_computed(engine: Endpoint) -> None:
    limits = LongContextLimits(fractions=(0.25,), prompts_per_length=1, answer_tokens=32, request_time_limit_s=300)
    evidence = KeptEvidence()
    seen = observe(long_context.CHECK, limits, engine, model=MODEL, serving=SERVING, evidence=evidence)
    assert (rules(seen), reasons(seen)) == ([], "")
    assert measured(seen, "longest-answered") == 512
    blocks = {
        (item.name, item.parameters["length"]): item.value for item in seen.measurements if "length" in item.parameters
    }
    assert blocks["kv-blocks-peak", 512] == blocks["kv-blocks-computed", 512] == 4
    assert set(evidence.files) == {"requests.jsonl.gz", "engine.log"}
    assert 500 < int(str(measured(seen, "memory-peak"))) < 10_000
    assert not any("grew" in line for line in seen.warnings)


def test_an_adapter_answers_on_its_base_and_otherwise_than_it(
    adapted: Endpoint, engine: Endpoint, adapter: Path
) -> None:
    async def answer(endpoint: Endpoint) -> str:
        async with EngineClient(endpoint, silence_limit_s=300, time_limit_s=300) as client:
            prompt = (await prompt_maker(client, seed=3)).make(0, 32)
            return (await client.complete(prompt.content, answer_tokens=16, exact_answer=True)).text

    assert choose_adapter(adapted).model == adapted.model == SERVED_NAME
    assert adapted.max_model_len == 512
    assert asyncio.run(answer(adapted)) != asyncio.run(answer(engine))
    limits = LongContextLimits(fractions=(0.25,), prompts_per_length=1, answer_tokens=32, request_time_limit_s=300)
    seen = observe(long_context.CHECK, limits, adapted, model=adapter, base=MODEL, serving=SERVING)
    assert set(rules(seen)) <= {"long-context.degenerate"}  # random weights may babble
    assert reasons(seen) == ""
    assert measured(seen, "longest-answered") == 512
    assert measured(seen, "adapter-base") == f"folder {MODEL}"


def test_what_it_really_is_comes_from_its_answers_metrics_and_log(engine: Endpoint) -> None:
    limits = LOAD.model_copy(update={"streams": 99})
    seen = observe(concurrency.CHECK, limits, engine, model=MODEL, serving=SERVING)
    found = {item.name: item for item in seen.measurements}
    assert found["engine-max-model-len"].value == 512
    assert found["engine-kv-pool"].value == 9
    assert found["engine-kv-pool"].parameters == {"block_size": 128, "tokens": 1280, "dtype": "auto"}
    assert found["engine-dtype"].value == "float32"
    assert found["engine-dtype"].parameters == {"quantization": "none", "device": "cpu", "compiled": False}
    assert any("does not say its attention backend" in line for line in seen.warnings)


def test_a_promise_over_what_it_serves_has_its_cliff_at_its_own_maximum(engine: Endpoint) -> None:
    claimed = SERVING.model_copy(update={"max_model_len": 1024})
    limits = LongContextLimits(
        fractions=(0.45,), prompts_per_length=1, answer_tokens=16, request_time_limit_s=300, cliff_step=16
    )
    seen = observe(long_context.CHECK, limits, engine, model=MODEL, serving=claimed)
    assert rules(seen) == ["long-context.rejected"]
    assert "; 512 tokens still work, 521 do not" in seen.findings[0].message
    assert measured(seen, "longest-answered") == 512


def test_as_many_streams_as_seats_pass_with_their_own_codes_and_a_sweep(
    engine: Endpoint, load: ConcurrencyLimits, tmp_path: Path
) -> None:
    limits = load.model_copy(update={"code_requests": 2, "sweep_streams": (1, 4), "sweep_rounds": 1})
    seen = observe_until(
        lambda seen: bool(rules(seen)) or any(item.name == "sweep-gain" for item in seen.measurements),
        concurrency.CHECK, limits, engine, model=MODEL, serving=SERVING, cache=tmp_path,
    )  # fmt: skip
    assert (rules(seen), reasons(seen)) == ([], "")
    assert measured(seen, "waiting-max") == 0
    assert measured(seen, "prefix-cache-hit-rate") == 0
    assert float(str(measured(seen, "own-code-share"))) > 0.8
    assert measured(seen, "mixed-up-answers") == 0
    gain = next(item for item in seen.measurements if item.name == "sweep-gain")
    assert (gain.parameters["from"], gain.parameters["to"]) == (1, 4)
    assert float(str(gain.value)) > 0
    knee = next(item for item in seen.measurements if item.name == "knee-throughput")
    assert knee.parameters["certain"] is False  # one round is no confidence


def test_a_pool_that_is_too_small_is_computed(engine: Endpoint) -> None:
    limits = LOAD.model_copy(update={"prompt_tokens": 240, "answer_tokens": 30})
    seen = observe(concurrency.CHECK, limits, engine, model=MODEL, serving=SERVING)
    assert rules(seen) == ["concurrency.sizing"]
    assert "4 * 3 = 12 KV blocks" in seen.findings[0].message
    assert "the engine's pool has 9" in seen.findings[0].message


def test_a_pool_that_is_too_small_preempts_where_it_cannot_be_computed(engine: Endpoint, tmp_path: Path) -> None:
    """Four streams begin with two blocks each, and each needs a third: 12 of 9."""
    config = json.loads((MODEL / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"mamba_d_state": 16}))
    limits = LOAD.model_copy(update={"prompt_tokens": 240, "answer_tokens": 30, "duration_s": 8, "max_waiting": 99})
    seen = observe(concurrency.CHECK, limits, engine, model=tmp_path, serving=SERVING)
    assert "concurrency.preempted" in rules(seen)
    assert any("whether the pool holds the streams was only tried" in line for line in seen.warnings)


def test_more_streams_than_seats_wait_and_are_refused(engine: Endpoint, load: ConcurrencyLimits) -> None:
    """The release claims 16 seats while the engine has 4: only the queue tells, of up to 5. Between an answer and the
    next question it is 4."""
    claimed = SERVING.model_copy(update={"max_num_seqs": 16})
    unknown = dataclasses.replace(engine, managed=False, flags={})
    limits = load.model_copy(update={"streams": 9, "max_waiting": 4})
    seen = observe_until(
        lambda seen: bool(rules(seen)), concurrency.CHECK, limits, unknown, model=MODEL, serving=claimed
    )
    assert rules(seen) == ["concurrency.waiting"]
    assert 4 <= float(str(measured(seen, "waiting-max"))) <= 5


def test_too_few_seats_are_computed_from_the_engines_flags(engine: Endpoint) -> None:
    limits = LOAD.model_copy(update={"streams": 9})
    seen = observe(concurrency.CHECK, limits, engine, model=MODEL, serving=SERVING)
    assert rules(seen) == ["concurrency.sizing"]


def test_an_engine_that_is_killed_under_load_is_noticed(engine: Endpoint) -> None:
    """Kills the engine's worker, as an out-of-memory killer would; nothing can use this engine afterwards."""
    family = psutil.Process(engine.pid).children(recursive=True)
    worker = max(family, key=lambda process: process.memory_info().rss)
    seen = observe(concurrency.CHECK, LOAD, engine, model=MODEL, serving=SERVING, progress=OnceUnderWay(worker.kill))
    assert "concurrency.engine-died" in rules(seen)


def test_an_engine_refuses_a_model_whose_weights_do_not_fit_its_config(tmp_path: Path) -> None:
    model = tiny_llama(tmp_path / "model")
    config = model / "config.json"
    config.write_text(config.read_text().replace('"intermediate_size": 128', '"intermediate_size": 256'))
    serving = Serving(max_model_len=128, max_num_seqs=2, max_num_batched_tokens=128)
    starting = start_engine(
        scan_tree(model), serving, SETTINGS, sandbox=Sandbox(), folder=tmp_path / "run", progress=SILENT
    )
    with pytest.raises(EngineRefusedError) as caught:
        starting.__enter__()
    seen = observe(long_context.CHECK, LongContextLimits(), caught.value, model=model, serving=serving)
    assert rules(seen) == ["long-context.engine-cannot-load"]
    assert "Error" in seen.findings[0].message
