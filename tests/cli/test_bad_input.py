"""Bad input and a hostile world: one clear message with the next command, the right exit code, nothing left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.support.command import MODELCTL, modelctl
from tests.support.history import Registry, a_served_registry
from tests.support.models import tiny_llama

NOWHERE = "http://127.0.0.1:1"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_llama(tmp_path / "model")


def refused(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    said = done.stderr + done.stdout
    assert done.returncode == code, said
    assert "Traceback" not in said
    for word in words:
        assert word in said


@pytest.mark.parametrize("repo", ["./nope", "/nope/at/all", "registry/x/1.0.0/release.yaml"])
def test_no_such_path(tmp_path: Path, repo: str) -> None:
    refused(modelctl("admit", repo, cwd=tmp_path), 2, "nope" if "nope" in repo else "release.yaml", "next: ")


def test_an_empty_folder_and_one_without_a_model(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    refused(modelctl("admit", "./folder", cwd=tmp_path), 2, "folder", "empty")
    (tmp_path / "folder" / "notes.txt").write_text("nothing here")
    refused(modelctl("admit", "./folder", cwd=tmp_path), 2, "not a model", "config.json")


def test_a_release_that_the_registry_does_not_have(tmp_path: Path) -> None:
    refused(modelctl("admit", "tiny@1.0.0", cwd=tmp_path), 2, "no release tiny@1.0.0", "release.yaml")


@pytest.mark.parametrize(
    "line",
    ["admit tinny@1.0.0", "size tinny@1.0.0", "list tinny", "show tinny", "verify tinny@1.0.0", "publish tinny@1.0.0",
     "diff tinny@1.0.0 tiny@1.0.0", "gate evidence --release tinny@1.0.0", "rollout tinny@1.0.0 --env prod",
     "audit tinny"],
)  # fmt: skip
def test_a_misspelt_release_is_told_which_one_may_be_meant(two_releases: Registry, line: str) -> None:
    done = modelctl(*line.split(), cwd=two_releases.root)
    assert re.search(r"did you mean tiny\b", done.stdout + done.stderr), done.stdout + done.stderr
    assert done.returncode in (0, 2)
    assert done.returncode == 2 or line.startswith(("list", "show"))  # an empty list is an answer


@pytest.fixture(scope="module")
def two_releases(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    """tiny@1.0.0, published and served, and other@1.0.0, proposed."""
    registry = a_served_registry(tmp_path_factory.mktemp("two") / "registry")
    registry.propose("other")
    (registry.root / "evidence").mkdir()
    return registry


def test_unknown_policies_and_policy_keys(tmp_path: Path, model: Path) -> None:
    refused(modelctl("admit", model, "--policy", "prodction", cwd=tmp_path), 2, "did you mean 'production'")
    policy = tmp_path / "mine.yaml"
    policy.write_text(
        "apiVersion: modelctl.dev/v1\nkind: AdmissionPolicy\nmetadata: {name: mine}\n"
        "spec: {checks: {quantization: {max_dorp_points: 2}}}\n"
    )
    refused(
        modelctl("admit", model, "--policy", policy, cwd=tmp_path),
        2,
        "mine.yaml",
        "spec.checks.quantization.max_dorp_points",
        "did you mean 'max_drop_points'",
    )


def test_an_unreachable_clamd_is_no_pass(tmp_path: Path, model: Path) -> None:
    done = modelctl(
        "admit", model, "--check", "malware", "--clamd", "127.0.0.1:1", "--json", "report.json", cwd=tmp_path
    )
    refused(done, 3, "127.0.0.1:1", "next: ")
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["verdict"] == "undecided"
    assert report["checks"][0]["outcome"] == "error"


@pytest.mark.slow
@pytest.mark.parametrize("check", ["long-context", "concurrency"])
def test_an_unreachable_endpoint_is_no_pass(tmp_path: Path, model: Path, check: str) -> None:
    done = modelctl("admit", model, "--policy", "demo", "--check", check, "--endpoint", NOWHERE, cwd=tmp_path)
    refused(done, 3, "127.0.0.1:1", "next: ")


def test_an_unreachable_hub(tmp_path: Path) -> None:
    done = modelctl("admit", "org/name", cwd=tmp_path, env={"HF_ENDPOINT": NOWHERE})
    refused(done, 3, "org/name", "next: ")


def test_json_on_stdout_is_only_json(tmp_path: Path, model: Path) -> None:
    done = modelctl("admit", model, "--policy", "demo", "--check", "integrity", "--json", "-", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"] == "admitted"
    assert "ADMITTED" in done.stderr


def test_a_report_that_can_not_be_written(tmp_path: Path, model: Path) -> None:
    arguments = ("admit", model, "--policy", "demo", "--check", "integrity", "--json", "no/such/report.json")
    refused(modelctl(*arguments, cwd=tmp_path), 2, "no/such", "mkdir -p")


def test_a_full_disk(tmp_path: Path, model: Path) -> None:
    """The state folder is a file system of 64 KiB, made by bubblewrap for this one command."""
    state = tmp_path / "state"
    state.mkdir()
    inside = [str(MODELCTL), "admit", str(model), "--policy", "demo", "--check", "integrity", "--check", "code"]
    # Evidence and report are written to the state folder; a file of zeros takes its room first.
    script = 'head -c 65536 /dev/zero > "$1/room" 2>/dev/null; shift; exec "$@"'
    done = subprocess.run(
        [
            *("bwrap", "--dev-bind", "/", "/", "--size", "65536", "--tmpfs", str(state)),
            *("sh", "-c", script, "sh", str(state), *inside),
        ],
        cwd=tmp_path,
        env={**os.environ, "MODELCTL_STATE_DIR": str(state)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    refused(done, 3, "No space left on device", "next: ")


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_at_any_point(tmp_path: Path, model: Path, sign: signal.Signals) -> None:
    """A clamd that accepts and never answers holds the run; then a person presses Ctrl-C."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        process = subprocess.Popen(
            [str(MODELCTL), "admit", str(model), "--policy", "demo", "--check", "malware", "--clamd", address],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        connection, _ = silent.accept()
        time.sleep(0.3)
        process.send_signal(sign)
        _, said = process.communicate(timeout=30)
        connection.close()
    assert process.returncode == 130, said
    assert "interrupted" in said
    assert "Traceback" not in said
    assert list((tmp_path / ".modelctl" / "tmp").iterdir()) == []
    assert not [
        item for item in psutil.process_iter(["cmdline"]) if str(tmp_path) in " ".join(item.info["cmdline"] or [])
    ]


def test_output_into_a_closed_pipe(tmp_path: Path) -> None:
    done = subprocess.run(
        f"{MODELCTL} config show | head -c 1", shell=True, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("env", [{"LC_ALL": "C", "PYTHONUTF8": "0"}, {"NO_COLOR": "1"}, {"COLUMNS": "40"}])
def test_narrow_plain_and_ascii_terminals(tmp_path: Path, model: Path, env: dict[str, str]) -> None:
    done = modelctl("admit", model, "--policy", "demo", "--check", "integrity", cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert "\x1b[" not in done.stdout
    assert sys.getdefaultencoding() == "utf-8"
