"""The report's page: how much was looked at, files with their hashes, and a launch checklist that makes nothing up."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import click
import pytest

from modelctl.admission.formats import render
from modelctl.admission.formats.launch import launch
from modelctl.admission.formats.served_files import served_files
from modelctl.admission.report import RawEvidence, Report
from modelctl.checks.base import Coverage, Measurement, Scalar
from modelctl.cli.main import cli
from tests.admission.formats.reports import full_report
from tests.support.browser import look
from tests.support.reports import DIGEST, a_check, a_report

LOAD: dict[str, Scalar] = {"streams": 4, "duration_s": 20.0, "prompt_tokens": 128, "answer_tokens": 32}


def figure(name: str, value: Scalar, unit: str = "", **parameters: Scalar) -> Measurement:
    return Measurement(name=name, value=value, unit=unit, parameters=parameters)


def stressed() -> Report:
    """A release whose stress checks measured everything."""
    concurrency = (
        figure("requests", 1200, **LOAD), figure("failed-requests", 0, **LOAD), figure("waiting-max", 0.0, **LOAD),
        figure("ttft-p50", 0.4, "s", **LOAD), figure("ttft-p95", 0.9, "s", **LOAD), figure("ttft-p99", 1.1, "s"),
        figure("latency-p50", 4.0, "s"), figure("latency-p95", 5.0, "s"), figure("latency-p99", 6.0, "s"),
        figure("tpot-p95", 0.05, "s", **LOAD), figure("throughput", 1000.0, "tokens/s", **LOAD),
        figure("kv-blocks-needed", 80, "blocks", streams=4, length=160),
        figure("kv-blocks-pool", 363, "blocks", block_bytes=1000), figure("knee", 32, "streams"),
        figure("engine-attention-backend", "FLASH_ATTN"), figure("engine-dtype", "bfloat16", device="cuda"),
    )  # fmt: skip
    length = (
        figure("longest-answered", 2048, "tokens"),
        figure("memory-peak", 3382, "MiB", source="resident memory of its processes"),
    )
    weights = (
        figure("tensor-bytes", 2_000_000, "B", tree="served"),
        figure("tensor-bytes", 9_000_000, "B", tree="source"),
    )
    report = a_report(
        replace(a_check("integrity"), measurements=weights),
        replace(a_check("long-context"), measurements=length),
        replace(a_check("concurrency"), measurements=concurrency, tools={"engine": "0.32.0"}),
    )
    model = replace(report.model, served_digest="sha256:" + "cd" * 32)
    return replace(report, model=model, machine=replace(report.machine, gpus=("NVIDIA H200",)))


def answers(report: Report) -> dict[str, tuple[str, str]]:
    return {what: (answer, under) for _, rows in launch(report) for what, answer, under in rows}


class TestLaunch:
    def test_every_group_is_there(self) -> None:
        groups = [title for title, rows in launch(stressed()) if rows]
        assert groups == ["Environment", "Memory", "Flags", "Load", "Cost", "Roll-out"]

    def test_figures_answer_with_what_they_hold_under(self) -> None:
        found = answers(stressed())
        assert found["weights"][0] == "2.0 MB"
        assert found["KV cache that the load needs"] == ("80.0 kB (80 blocks)", "4 streams, 160 tokens each")
        assert found["both together"][0] == "2.1 MB"
        assert "lower bound" in found["both together"][1]
        assert found["measured at most"] == ("3,382 MiB", "resident memory of its processes")
        assert found["--max-model-len"] == ("2048", "the longest that was answered")
        assert found["--max-num-seqs"] == ("32", "where more streams stop paying")
        assert found["requests"] == ("1,200", "4 streams, for 20 s, 128 tokens of prompt, 32 of answer")
        assert found["engine"][0] == "tool 1.0, version 0.32.0"
        assert found["attention backend"][0] == "FLASH_ATTN"

    def test_the_cost_follows_from_the_measured_throughput_and_no_price_is_made_up(self) -> None:
        found = answers(stressed())
        hours, under = found["hours per million written tokens"]
        assert float(hours) == pytest.approx(1e6 / 1000 / 3600, rel=1e-2)
        assert under == "at the measured 1,000 tokens/s on one GPU"
        assert found["cost per million tokens"][0] == (
            "modelctl size tiny@1.0.0 --gpu GPU --price MONEY --throughput 1000"
        )

    def test_what_was_not_measured_names_the_command_that_measures_it(self) -> None:
        found = answers(a_report())
        for what in ("--max-model-len", "--max-num-seqs", "load test", "cost per million tokens", "measured at most"):
            assert found[what][0].startswith("not measured: modelctl admit … --check "), what
        assert found["attention backend"][0] == "the engine does not say it"
        assert "both together" not in found

    def test_commands_that_the_checklist_names_are_there(self) -> None:
        named = {answer.split()[1] for answer, _ in answers(stressed()).values() if answer.startswith("modelctl ")}
        assert named == {"size", "publish", "rollout"}
        assert named <= set(cli.list_commands(click.Context(cli)))

    def test_a_refused_release_is_not_told_to_publish(self) -> None:
        found = answers(replace(stressed(), verdict="refused"))
        assert found["publication"][0] == "not before it is admitted"
        assert "canary" not in found


class TestFiles:
    ROWS = (("b <x>.json", 3, "ab" * 32), ("model.safetensors", 5_000_000, "cd" * 32))

    def report(self, folder: Path, *, name: str = "files-source.json") -> Report:
        rows = [{"path": path, "size_bytes": size, "sha256": sha256} for path, size, sha256 in self.ROWS]
        content = json.dumps(rows).encode()
        (folder / "integrity").mkdir()
        (folder / "integrity" / name).write_bytes(content)
        item = RawEvidence(
            path=f"integrity/{name}", size_bytes=len(content), sha256=hashlib.sha256(content).hexdigest()
        )
        return a_report(replace(a_check("integrity"), evidence=(item,)))

    def test_they_are_shown_with_their_hashes_the_largest_first(self, tmp_path: Path) -> None:
        page = render(self.report(tmp_path), "html", [tmp_path / "none", tmp_path])
        places = [page.index(sha256) for sha256 in ("cd" * 32, "b &lt;x&gt;.json")]
        assert places == sorted(places)

    def test_of_what_was_quantised_it_is_the_served_ones(self, tmp_path: Path) -> None:
        report = self.report(tmp_path)
        assert served_files(report, [tmp_path]) == self.ROWS
        other = replace(report, model=replace(report.model, served_digest="sha256:" + "00" * 32))
        assert served_files(other, [tmp_path]) is None

    def test_a_listing_that_is_not_the_reports_is_not_shown(self, tmp_path: Path) -> None:
        report = self.report(tmp_path)
        path = tmp_path / "integrity" / "files-source.json"
        path.write_bytes(path.read_bytes().replace(b"ab", b"ac"))
        assert served_files(report, [tmp_path]) is None
        assert "not beside this report" in render(report, "html", [tmp_path])

    def test_many_are_folded(self, tmp_path: Path) -> None:
        many = [(f"f{number}", number, "ab" * 32) for number in range(100)]
        self.ROWS = tuple(many)  # type: ignore[assignment]
        page = render(self.report(tmp_path), "html", [tmp_path])
        assert "<summary" in page
        assert "88 more" in page


def test_the_bar_shows_the_least_share_that_was_looked_at() -> None:
    parts = (Coverage(unit="files", seen=1, total=1), Coverage(unit="bytes", seen=25, total=100))
    page = render(a_report(replace(a_check(), coverage=parts)), "html")
    assert re.findall(r"width:(\d+)%\"", page) == ["25"]


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(500, True), (1200, False)])
def test_it_fits_its_window_and_loads_nothing(tmp_path: Path, width: int, dark: bool) -> None:
    for name, report in (("full", full_report()), ("stressed", stressed())):
        (tmp_path / name).mkdir()
        page = render(report, "html")
        seen = look(page, tmp_path / name, width=width, dark=dark)
        assert seen.width <= seen.window
        assert seen.loaded == []
        assert (seen.paper == "rgb(18, 22, 28)") is dark
        if name == "stressed":
            assert {"first token", "whole answer", "half of them"} <= set(seen.texts)
        else:
            assert {"law", "original", "served"} <= set(seen.texts)
    assert DIGEST in unescape(page)
