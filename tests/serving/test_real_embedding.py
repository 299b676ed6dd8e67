"""A real embedding model on the real CPU engine: both checks drive it by its vectors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from modelctl.checks import concurrency, long_context
from modelctl.checks.long_context import LongContextLimits
from modelctl.model.release import Serving
from modelctl.serving.endpoint import Endpoint
from tests.serving.test_real_engine import LOAD, float32_engine
from tests.support.models import tiny_bert
from tests.support.stress import measured, observe, reasons, rules

pytestmark = pytest.mark.engine

SERVING = Serving(max_model_len=256, max_num_seqs=4, max_num_batched_tokens=1024)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bert(tmp_path_factory.mktemp("bert") / "model", max_positions=256)


@pytest.fixture(scope="module")
def engine(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    with float32_engine(model, SERVING, tmp_path_factory.mktemp("engine")) as endpoint:
        yield endpoint


def test_it_is_served_up_to_its_maximum_and_one_token_more_is_refused(engine: Endpoint, model: Path) -> None:
    limits = LongContextLimits(fractions=(0.5,), prompts_per_length=2, request_time_limit_s=300)
    seen = observe(long_context.CHECK, limits, engine, model=model, serving=SERVING)
    assert (rules(seen), reasons(seen)) == ([], "")
    assert measured(seen, "longest-answered") == 256


def test_streams_are_answered_with_vectors_and_the_engine_counts_the_same_tokens(engine: Endpoint, model: Path) -> None:
    seen = observe(concurrency.CHECK, LOAD, engine, model=model, serving=SERVING)
    assert (rules(seen), reasons(seen)) == ([], "")
    assert measured(seen, "failed-requests") == 0
    assert float(str(measured(seen, "throughput"))) > 0
