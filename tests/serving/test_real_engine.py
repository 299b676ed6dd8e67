"""The real CPU engine on the real small model: one start for the whole file, and the last test kills it."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
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
from modelctl.serving.endpoint import Endpoint
from modelctl.serving.engine import EngineRefusedError, start_engine
from modelctl.settings import Engine
from tests.support.models import tiny_llama
from tests.support.stress import KeptEvidence, measured, observe, reasons, rules

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-engine" / "bin" / "python"
MODEL = ROOT / ".cache" / "models" / "SmolLM2-135M-Instruct"
SERVING = Serving(max_model_len=1024, max_num_seqs=4, max_num_batched_tokens=1024)
SETTINGS = Engine(
    command=f"{PYTHON} -m vllm.entrypoints.openai.api_server --model {{model}}",
    args=("--enforce-eager",),
    env={"VLLM_CPU_KVCACHE_SPACE": "1"},
    start_timeout_s=400,
)
LOAD = ConcurrencyLimits(
    streams=4,
    duration_s=10,
    ramp_s=1,
    prompt_tokens=64,
    answer_tokens=16,
    require_gpu=False,
    max_client_lag_s=1,
    request_time_limit_s=120,
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    for needed in (PYTHON, MODEL / "config.json"):
        assert needed.exists(), f"{needed} is missing: run make setup"
    folder = tmp_path_factory.mktemp("engine")
    with start_engine(
        scan_tree(MODEL), SERVING, SETTINGS, sandbox=Sandbox(), folder=folder, progress=SILENT
    ) as endpoint:
        yield endpoint


def test_it_gets_ready_and_says_who_it_is(engine: Endpoint) -> None:
    assert engine.managed
    assert engine.max_model_len == 1024
    assert engine.version
    assert engine.log is not None
    assert engine.log.stat().st_size > 1000


def test_long_context_passes_and_kv_use_is_what_was_computed(engine: Endpoint) -> None:
    limits = LongContextLimits(fractions=(0.25,), prompts_per_length=1, answer_tokens=16, request_time_limit_s=300)
    evidence = KeptEvidence()
    seen = observe(long_context.CHECK, limits, engine, model=MODEL, serving=SERVING, evidence=evidence)
    assert (rules(seen), reasons(seen)) == ([], "")
    assert measured(seen, "longest-answered") == 1024
    blocks = {(item.name, item.parameters["length"]): item.value for item in seen.measurements if item.unit == "blocks"}
    assert blocks["kv-blocks-peak", 1024] == blocks["kv-blocks-computed", 1024]
    assert set(evidence.files) == {"requests.jsonl.gz", "engine.log"}


def test_as_many_streams_as_seats_pass(engine: Endpoint) -> None:
    seen = observe(concurrency.CHECK, LOAD, engine, model=MODEL, serving=SERVING)
    assert (rules(seen), reasons(seen)) == ([], "")
    assert measured(seen, "waiting-max") == 0
    assert measured(seen, "prefix-cache-hit-rate") == 0


def test_more_streams_than_seats_wait_and_are_refused(engine: Endpoint) -> None:
    """The release claims 16 seats while the engine has 4: only the queue tells."""
    claimed = SERVING.model_copy(update={"max_num_seqs": 16})
    unknown = dataclasses.replace(engine, managed=False, flags={})
    limits = LOAD.model_copy(update={"streams": 12, "duration_s": 8})
    seen = observe(concurrency.CHECK, limits, unknown, model=MODEL, serving=claimed)
    assert rules(seen) == ["concurrency.waiting"]
    assert measured(seen, "waiting-max") == 8


def test_too_few_seats_are_computed_from_the_engines_flags(engine: Endpoint) -> None:
    limits = LOAD.model_copy(update={"streams": 12})
    seen = observe(concurrency.CHECK, limits, engine, model=MODEL, serving=SERVING)
    assert rules(seen) == ["concurrency.sizing"]


def test_an_engine_that_is_killed_under_load_is_noticed(engine: Endpoint) -> None:
    """Kills the engine's worker, as an out-of-memory killer would; nothing can use this engine afterwards."""
    family = psutil.Process(engine.pid).children(recursive=True)
    worker = max(family, key=lambda process: process.memory_info().rss)
    threading.Timer(4.0, worker.kill).start()
    seen = observe(concurrency.CHECK, LOAD, engine, model=MODEL, serving=SERVING)
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
