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


def test_bad_input(tmp_path: Path) -> None:
    tiny_llama(tmp_path / "m")
    for arguments, words in (
        (["./nope"], "neither a folder here nor a Hub id"),
        (["./m", "--gpu", "H101"], "no GPU 'H101'"),
        (["./m", "--price", "1", "--purchase", "2"], "exclude each other"),
    ):
        done = modelctl("size", *arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert words in done.stderr
