from __future__ import annotations

import json
from pathlib import Path

from tests.support.command import modelctl
from tests.support.models import tiny_llama


def test_the_arithmetic_the_flags_and_the_cost_are_printed(tmp_path: Path) -> None:
    tiny_llama(tmp_path / "m")
    done = modelctl(
        "size", "./m", "--gpu", "L4", "--streams", "4", "--price", "0.8", "--throughput", "1000", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    for words in ("./m on L4 fits: 4 streams of 256 tokens", "= KV pool", "--max-model-len 256", "0.222 per million"):
        assert words in done.stdout


def test_json_holds_every_gpu_and_the_ways_out(tmp_path: Path) -> None:
    tiny_llama(tmp_path / "m")
    done = modelctl("size", "./m", "--gpu", "1.6GiB", "--gpu", "L4", "--streams", "5000", "--json", "-", cwd=tmp_path)
    small, large = json.loads(done.stdout)
    assert (small["fits"], large["fits"], done.returncode) == (False, True, 0)
    assert small["why_not"]
    assert small["ways_out"]
    assert large["flags"]["--max-num-seqs"] == "5000"


def test_fitting_nothing_is_exit_1_and_says_what_would(tmp_path: Path) -> None:
    tiny_llama(tmp_path / "m")
    done = modelctl("size", "./m", "--gpu", "2GiB", "--length", "1000", cwd=tmp_path)
    assert done.returncode == 1
    assert "why not: config.json states at most 256 tokens" in done.stdout


def test_prices_by_gpu_make_a_table_and_the_cheapest_is_explained(tmp_path: Path) -> None:
    tiny_llama(tmp_path / "m")
    arguments = (
        "size", "./m", "--gpu", "L4", "--gpu", "H100-80GB", "--gpu", "A100-80GB", "--gpu", "8GiB",
        "--price", "L4=0.72", "--price", "h100 80gb=3.6", "--purchase", "A100-80GB=35040", "--purchase", "8GiB=3504",
        "--years", "4", "--power-price", "0.25", "--throughput", "L4=100", "--throughput", "1000", "--json", "s.json",
    )  # fmt: skip
    done = modelctl(*arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    plans = {plan["gpu"]: plan for plan in json.loads((tmp_path / "s.json").read_text())}
    costs = {name: round(plan["cost_per_million_tokens"], 4) for name, plan in plans.items()}
    assert costs == {"L4": 2.0, "H100-80GB": 1.0, "A100-80GB": 0.3056, "8GiB": 0.0278}
    assert [plan["smallest_slice"] for plan in plans.values()] == [None, "H100-80GB:1g.10gb", "A100-80GB:1g.10gb", None]
    assert "./m on 8GiB fits" in done.stdout
    assert "without power: that of 8GiB is not known" in done.stdout
    assert "1g.10gb" in done.stdout


def test_bad_input(tmp_path: Path) -> None:
    tiny_llama(tmp_path / "m")
    for arguments, words in (
        (["./nope"], "neither a folder here nor a Hub id"),
        (["./m", "--gpu", "H101"], "no GPU 'H101'"),
        (["./m", "--price", "1", "--purchase", "2"], "exclude each other"),
        (["./m", "--price", "1", "--price", "2"], "one number above zero for all GPUs"),
        (["./m", "--price", "L4=1", "--price", "L4=2"], "one number above zero for all GPUs"),
        (["./m", "--throughput", "L4=fast"], "--throughput 'L4=fast'"),
        (["./m", "--price", "L5=1"], "no GPU 'L5'"),
    ):
        done = modelctl("size", *arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert words in done.stderr
