"""What we render is faultless, and each edit that a schema lets pass is found where it stands."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modelctl.errors import InputError
from modelctl.rollout.lint.folder import Folder, Manifest
from modelctl.rollout.lint.measured import check_measured
from modelctl.rollout.lint.pods import check_pods
from modelctl.rollout.lint.run import lint
from modelctl.rollout.lint.strategy import check_strategy
from tests.rollout.test_render import KINDS, rendered
from tests.support.command import modelctl
from tests.support.rollouts import DIGEST, IMAGE, PROJECT, documents

EDITS: dict[str, tuple[str, str, str, str]] = {
    "weight": ("rollout.yaml", "setWeight: 50", "setWeight: 150", "lint.weight"),
    "no pause": (
        "rollout.yaml",
        "setWeight: 50\n        - pause:\n            duration: 1200s\n",
        "setWeight: 50\n",
        "lint.no-pause",
    ),
    "pause in words": ("rollout.yaml", "duration: 1200s", "duration: 5 minutes", "lint.duration"),
    "two strategies": ("rollout.yaml", "  strategy:\n", "  strategy:\n    blueGreen: {}\n", "lint.strategy"),
    "no service": ("rollout.yaml", "stableService: tiny-stable", "stableService: tiny-old", "lint.service"),
    "no template": ("rollout.yaml", "templateName: tiny-canary", "templateName: other", "lint.analysis"),
    "never given up": ("rollout.yaml", "progressDeadlineAbort: true", "progressDeadlineAbort: false", "lint.deadline"),
    "impatient": ("rollout.yaml", "progressDeadlineSeconds: 2400", "progressDeadlineSeconds: 600", "lint.deadline"),
    "two owners": ("rollout.yaml", "spec:\n  revision", "spec:\n  replicas: 3\n  revision", "lint.replicas"),
    "memory": ("rollout.yaml", "memory: 64Gi", "memory: 64Gigs", "lint.quantity"),
    "gpu": (
        "rollout.yaml",
        "limits:\n              cpu: \"8\"\n              memory: 64Gi\n              nvidia.com/gpu: 1",
        "limits:\n              cpu: \"8\"\n              memory: 64Gi\n              nvidia.com/gpu: 2",
        "lint.gpu",
    ),
    "image by tag": ("rollout.yaml", IMAGE, "vllm/vllm-openai:latest", "lint.image"),
    "other release": (
        "rollout.yaml",
        "modelctl.dev/release: tiny@1.0.0",
        "modelctl.dev/release: tiny@1.0.1",
        "lint.identity",
    ),
    "nobody verifies": ("rollout.yaml", f"            - {DIGEST}\n", "", "lint.unverified"),
    "root": ("rollout.yaml", "runAsNonRoot: true", "runAsNonRoot: false", "lint.root"),
    "token": (
        "rollout.yaml",
        "automountServiceAccountToken: false",
        "automountServiceAccountToken: true",
        "lint.token",
    ),
    "seccomp": ("rollout.yaml", "type: RuntimeDefault", "type: Unconfined", "lint.seccomp"),
    "writable": ("rollout.yaml", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "lint.privileges"),
    "cut streams": (
        "rollout.yaml",
        "terminationGracePeriodSeconds: 345",
        "terminationGracePeriodSeconds: 30",
        "lint.termination",
    ),
    "a default": ("rollout.yaml", "- --max-num-seqs=128", "- --no-max-num-seqs", "lint.flags"),
    "shared memory": ("rollout.yaml", "--tensor-parallel-size=1", "--tensor-parallel-size=2", "lint.shared-memory"),
    "no probe": ("rollout.yaml", "readinessProbe:", "readynessProbe:", "lint.probe"),
    "one condition": ("analysis.yaml", "failureCondition:", "failureCondtion:", "lint.condition"),
    "no guard": ("analysis.yaml", "!isNaN(result[0])", "true", "lint.condition"),
    "interval": ("analysis.yaml", "interval: 60s", "interval: abc", "lint.duration"),
    "argument": ("analysis.yaml", "    - name: stable-hash\n", "", "lint.argument"),
    "provider": ("analysis.yaml", "prometheus:", "promethius:", "lint.provider"),
    "severity": ("alerts.yaml", "severity: P0", "severity: critical", "lint.severity"),
    "promql": ("alerts.yaml", "sum(up{", "sum(up{{", "lint.query"),
    "an old name": (
        "alerts.yaml", "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "lint.metric",
    ),
    "a slip": ("alerts.yaml", "vllm:num_requests_waiting", "vllm:num_request_waiting", "lint.metric"),
    "a label's slip": ("alerts.yaml", "finished_reason=", "finish_reason=", "lint.label"),
    "a panel's query": ("dashboards.yaml", "sum(vllm:num_requests_w", "sum((vllm:num_requests_w", "lint.query"),
    "a dashboard": ("dashboards.yaml", '    "uid"', '    "uid', "lint.dashboard"),
    "for": ("alerts.yaml", "for: 120s", "for: two minutes", "lint.duration"),
    "keda key": ("autoscaling.yaml", "threshold:", "treshold:", "lint.trigger"),
    "null": ("autoscaling.yaml", 'ignoreNullValues: "false"', 'ignoreNullValues: "true"', "lint.null-values"),
    "target": ("autoscaling.yaml", "kind: Rollout\n    name: tiny", "kind: Rollout\n    name: tine", "lint.target"),
    "a key twice": ("services.yaml", "kind: Service\n", "kind: Service\nkind: Service\n", "lint.yaml"),
    "no object": ("services.yaml", "kind: Service\n", "", "lint.object"),
    "forgotten": ("kustomization.yaml", "  - alerts.yaml\n", "", "lint.resource-forgotten"),
    "missing": ("kustomization.yaml", "  - alerts.yaml\n", "  - alerts.yaml\n  - more.yaml\n", "lint.resource-missing"),
}  # fmt: skip


def write(folder: Path, kind: str) -> Path:
    folder.mkdir()
    for name, text in rendered(kind).items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_what_we_render_has_no_fault(kind: str, tmp_path: Path) -> None:
    found = lint(write(tmp_path / kind, kind))
    assert found.faults == ()
    assert found.manifests > 8


def test_what_this_repository_ships_has_no_fault() -> None:
    assert lint(PROJECT / "gitops").faults == ()


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_found_where_it_stands(edit: str, tmp_path: Path) -> None:
    file, old, new, rule = EDITS[edit]
    folder = write(tmp_path / "tiny", "nginx")
    text = (folder / file).read_text(encoding="utf-8")
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1), encoding="utf-8")
    found = lint(folder).faults
    assert rule in {fault.rule for fault in found}, found
    assert {fault.path for fault in found if fault.rule == rule} <= {file, "rollout.yaml", "kustomization.yaml"}


def test_a_fault_names_the_line_of_its_document(tmp_path: Path) -> None:
    folder = write(tmp_path / "tiny", "nginx")
    text = (folder / "services.yaml").read_text()
    second = text.index("---\n") + 4
    (folder / "services.yaml").write_text(text[:second] + text[second:].replace("apiVersion: v1\n", "", 1))
    (fault,) = [item for item in lint(folder).faults if item.rule == "lint.object"]
    assert fault.line == text[:second].count("\n") + 1


@pytest.mark.parametrize(
    "text", ["", "a: [", "- 1\n", "kind: Rollout\napiVersion: x\nspec: 1\n", "\x00", "kind: {}\napiVersion: 1\n"]
)
def test_nonsense_is_a_fault_and_never_a_crash(text: str, tmp_path: Path) -> None:
    (tmp_path / "rollout.yaml").write_text(text)
    assert lint(tmp_path).faults or not text


@pytest.mark.slow
def test_any_value_of_another_kind_is_a_fault_or_nothing_and_never_a_crash(tmp_path: Path) -> None:
    """Each value of each file in turn becomes a number, a list, a mapping, nothing."""
    whole = {name: [*documents(text)] for name, text in rendered("nginx").items()}
    for name, bodies in whole.items():
        for index, body in enumerate(bodies):
            for path in list(paths(body))[::3]:
                for value in (7, ["x"], {"x": None}, None):
                    changed = [*bodies[:index], replaced(body, path, value), *bodies[index + 1 :]]
                    manifests = tuple(
                        Manifest(path=file, line=1, body=document)
                        for file, all_of_it in {**whole, name: changed}.items()
                        for document in all_of_it
                    )
                    folder = Folder(path=".", manifests=manifests, faults=())
                    for check in (check_strategy, check_pods, check_measured):
                        assert isinstance(list(check(folder)), list)


def paths(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*above, key)
        yield from paths(item, (*above, key))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    found = copy.deepcopy(value)
    inner = found
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return found


def test_nothing_to_look_at_is_no_pass(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no manifest \(\*\.yaml\)"):
        lint(tmp_path)


def test_the_command_prints_a_line_for_each_and_counts(tmp_path: Path) -> None:
    folder = write(tmp_path / "tiny", "nginx")
    assert modelctl("lint", "tiny", cwd=tmp_path).returncode == 0
    (folder / "rollout.yaml").write_text((folder / "rollout.yaml").read_text().replace("setWeight: 50", "setWeight: 0"))
    done = modelctl("lint", "tiny", cwd=tmp_path)
    assert done.returncode == 1
    assert "tiny/rollout.yaml:2: lint.weight: Rollout tiny: setWeight 0" in done.stdout
    assert modelctl("lint", "nowhere", cwd=tmp_path).returncode == 2
