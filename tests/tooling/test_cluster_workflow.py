"""The GPU checks in a cluster: the workflow's own shell and the manifests as they stand.

A program stands for `kubectl`: it takes what is created, runs the container's command with its variables and answers as
the cluster would. The pod's `git` is real, and so is the S3 server by way of which the evidence comes to the gate.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from modelctl.admission.policy import load_policy
from modelctl.model.tree import hash_file
from modelctl.services.process import Running
from tests.support.evidence import CPU, GPU, checked, leave, runner_report
from tests.support.s3_servers import ACCESS_KEY, SECRET_KEY, a_bucket, a_client
from tests.tooling.scripts import ROOT
from tests.tooling.test_gate_workflow import FILE, PullRequest
from tests.tooling.test_workflows import script

CHECKS = ROOT / "gitops" / "checks"
PARAMETERS = ("RELEASE", "REPOSITORY", "EVIDENCE", "BASE", "HEAD")
KUBECTL = """\
#!{python}
import json, os, pathlib, subprocess, sys, time
from ruamel.yaml import YAML

state, work = pathlib.Path({state!r}), pathlib.Path({work!r})
arguments = sys.argv[1:]
with (state / "calls").open("a") as stream:
    stream.write(json.dumps(arguments) + "\\n")
verb = next(word for word in arguments if word in ("create", "wait", "logs", "delete"))
if verb == "create":
    assert os.environ["KUBECONFIG"] and oct(os.stat(os.environ["KUBECONFIG"]).st_mode)[-3:] == "600"
    manifest = YAML(typ="safe").load(sys.stdin)
    (state / "manifest.json").write_text(json.dumps(manifest))
    if manifest["kind"] == "Job":
        container = manifest["spec"]["template"]["spec"]["containers"][0]
        given = {{}}
    else:
        template = YAML(typ="safe").load(pathlib.Path({template!r}))
        assert manifest["spec"]["workflowTemplateRef"]["name"] == template["metadata"]["name"]
        given = {{item["name"]: item["value"] for item in manifest["spec"]["arguments"]["parameters"]}}
        assert set(given) == {{item["name"] for item in template["spec"]["arguments"]["parameters"]}}
        (one,) = template["spec"]["templates"]
        assert one["name"] == template["spec"]["entrypoint"]
        container = one["container"]
    environment = {{"PATH": os.environ["PATH"], "HOME": str(work)}}
    for item in container["env"]:
        value = item["value"]
        for name, text in given.items():
            value = value.replace("{{{{inputs.parameters." + name + "}}}}", text)
        environment[item["name"]] = value
    (shell,) = container["args"]
    done = subprocess.run(
        [*container["command"], shell.replace("/srv", str(work))], env=environment, capture_output=True, text=True
    )
    (state / "log").write_text(done.stdout + done.stderr)
    (state / "ended").write_text("Failed" if done.returncode else "Complete")
elif verb == "wait":
    (condition,) = [word.split("=")[-1] for word in arguments if word.startswith("--for=condition=")]
    ended = (state / "ended").read_text()
    if condition not in (ended, "Completed"):
        time.sleep(600)
elif verb == "logs":
    print((state / "log").read_text())
"""
MODELCTL = """\
#!{python}
import json, os, pathlib, sys
sys.path.insert(0, {root!r})
from modelctl.admission.evidence_store import send_evidence
from modelctl.admission.report import Report
from tests.support.s3_servers import a_client

state = pathlib.Path({state!r})
seen = {{"argv": sys.argv[1:], "policy": pathlib.Path("policies/production.yaml").read_text(),
        "engine": os.environ["MODELCTL_ENGINE_COMMAND"], "release": pathlib.Path(os.environ["RELEASE"]).read_text()}}
(state / "admit.json").write_text(json.dumps(seen))
folder = pathlib.Path({left!r})
report = Report.from_json((folder / "report.json").read_text(), origin="report.json")
send_evidence(folder, report, sys.argv[sys.argv.index("--evidence-dir") + 1], a_client({address!r}))
sys.exit({code})
"""


class Cluster:
    """A pull request whose GPU checks run in a pod."""

    def __init__(self, folder: Path, address: str, *, code: int = 0) -> None:
        self.request = request = PullRequest(folder)
        self.state, self.work = folder / "state", folder / "pod"
        for path in (self.state, self.work, self.state / "bin", self.state / "pod-bin"):
            path.mkdir()
        self.bucket = a_bucket(a_client(address))
        self.address = address
        policy = load_policy("production", request.clone)
        for name, checks in (("cpu", CPU), ("gpu", GPU)):
            made = [checked(check, policy) for check in checks]
            report = runner_report(made, policy, release_sha256=hash_file(request.clone / FILE))
            at = request.clone / "artifacts" / "admission-cpu-0" / "evidence" if name == "cpu" else folder / "left"
            leave(at, report)
        words = {
            "python": sys.executable,
            "state": str(self.state),
            "work": str(self.work),
            "address": address,
            "root": str(ROOT),
        }
        template = str(CHECKS / "cluster" / "workflow-template.yaml")
        self.program("kubectl", KUBECTL.format(**words, template=template))
        self.program("modelctl", MODELCTL.format(**words, left=str(folder / "left"), code=code))

    def program(self, name: str, text: str) -> None:
        path = self.state / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def run(self, kind: str) -> subprocess.CompletedProcess[str]:
        """The cluster job's step, as the runner runs it, in a checkout of the base branch."""
        request = self.request
        for path in [*CHECKS.glob("*.yaml"), CHECKS / "run.sh"]:
            target = request.clone / "gitops" / "checks" / path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
        environment = {
            "PATH": f"{self.state / 'bin'}:{os.environ['PATH']}", "HOME": str(request.clone),
            "CHECKS_KIND": kind, "RELEASE": FILE, "REPOSITORY": f"file://{request.bare}",
            "RUNNER_TEMP": str(self.state),
            "EVIDENCE": f"s3://{self.bucket}/evidence/7-1/0", "KUBECONFIG_TEXT": "kind: Config",
            "BASE": request.base, "HEAD": request.head,
        }  # fmt: skip
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"]
        command.append(script("admit.yml", "cluster", "Run the checks in the cluster"))
        return subprocess.run(
            command, cwd=request.clone, env=environment, check=False, capture_output=True, text=True, timeout=300
        )

    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in (self.state / "calls").read_text().splitlines()]


@pytest.mark.services
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["job", "workflow"])
def test_evidence_of_a_pod_comes_to_the_gate_by_way_of_the_bucket(tmp_path: Path, rclone: Running, kind: str) -> None:
    cluster = Cluster(tmp_path, rclone.address)
    done = cluster.run(kind)
    assert done.returncode == 0, done.stdout + done.stderr + (cluster.state / "log").read_text()
    seen = json.loads((cluster.state / "admit.json").read_text())
    assert seen["argv"][:4] == ["admit", FILE, "--policy-ref", cluster.request.base]
    assert [seen["argv"][at + 1] for at, word in enumerate(seen["argv"]) if word == "--check"] == list(GPU)
    assert "--stage" in seen["argv"]
    assert seen["engine"] == "vllm serve"
    assert "folder: model" in seen["release"]  # of the change
    assert not (cluster.state / "kubeconfig").exists()
    verbs = [next(word for word in call if word in ("create", "wait", "logs", "delete")) for call in cluster.calls()]
    assert verbs[0] == "create"
    assert verbs[-1] == "delete"
    request = cluster.request
    store = f"store: {{endpoint: '{cluster.address}', bucket: {cluster.bucket}}}\n"
    (request.clone / "modelctl.yaml").write_text(store)
    request.environment = {
        "EVIDENCE": f"s3://{cluster.bucket}/evidence/7-1",
        "ACCESS_KEY": ACCESS_KEY,
        "SECRET_KEY": SECRET_KEY,
    }
    code, report = request.gate()
    assert (code, report["verdict"], report["partial"]) == (0, "admitted", False)


@pytest.mark.services
@pytest.mark.slow
def test_a_pod_that_refuses_has_ended_and_the_gate_decides(tmp_path: Path, rclone: Running) -> None:
    cluster = Cluster(tmp_path, rclone.address, code=1)
    done = cluster.run("job")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (cluster.state / "ended").read_text() == "Failed"


@pytest.mark.slow
def test_a_cluster_that_answers_nothing_and_an_unknown_kind_are_no_pass(tmp_path: Path) -> None:
    request = PullRequest(tmp_path)
    cluster = Cluster.__new__(Cluster)
    cluster.request, cluster.state, cluster.bucket = request, tmp_path / "state", "b"
    (cluster.state / "bin").mkdir(parents=True)
    cluster.program("kubectl", "#!/bin/sh\necho refused >&2\nexit 1\n")
    done = cluster.run("job")
    assert done.returncode != 0
    assert "refused" in done.stderr
    done = cluster.run("pods")
    assert done.returncode == 2
    assert "wanted job or workflow" in done.stderr


def documents(path: Path) -> list[Any]:
    return [item for item in YAML(typ="safe").load_all(path) if item]


class TestManifests:
    def test_kubernetes_takes_the_job_and_the_access(self) -> None:
        (job,) = documents(CHECKS / "job.yaml")
        job["metadata"]["name"] = "admit-0"
        found = [job, *documents(CHECKS / "cluster" / "access.yaml")]
        for document in found:
            kubernetes_validate.validate(document, "1.32", strict=True)
        assert [document["kind"] for document in found].count("Role") == 2

    @pytest.mark.slow
    def test_argos_own_models_know_every_field_of_the_workflow(self) -> None:
        from hera.workflows import models

        for path, kind in (
            (CHECKS / "cluster" / "workflow-template.yaml", models.WorkflowTemplate),
            (CHECKS / "workflow.yaml", models.Workflow),
        ):
            (document,) = documents(path)
            read = kind.model_validate(document).model_dump(mode="json", by_alias=True, exclude_none=True)
            assert known(read, document) == document

    def test_the_pod_of_the_template_is_that_of_the_job(self) -> None:
        (job,) = documents(CHECKS / "job.yaml")
        (template,) = documents(CHECKS / "cluster" / "workflow-template.yaml")
        pod, spec = job["spec"]["template"]["spec"], template["spec"]
        (container,), (one,) = pod["containers"], spec["templates"]
        theirs = one["container"]
        assert {**container, "env": 0, "name": 0} == {**theirs, "env": 0, "name": 0}
        assert pod["securityContext"] == spec["securityContext"]
        assert pod["volumes"] == spec["volumes"]
        assert pod["automountServiceAccountToken"] is spec["automountServiceAccountToken"] is False
        assert [item["name"] for item in container["env"]] == [item["name"] for item in theirs["env"]]
        assert "{{" not in theirs["args"][0]  # nothing of a parameter is shell

    def test_every_variable_is_filled_in_and_every_parameter_is_given(self) -> None:
        text = (CHECKS / "run.sh").read_text()
        filled = set(re.findall(r"\$(\w+)", re.search(r"envsubst '(.*?)'", text)[1]))  # type: ignore[index]
        assert filled == {"NAME", *PARAMETERS}
        for name in ("job.yaml", "workflow.yaml"):
            used = set(re.findall(r'(?:value: "|name: )\$(\w+)', (CHECKS / name).read_text()))
            assert used == filled, name
        (template,) = documents(CHECKS / "cluster" / "workflow-template.yaml")
        names = {item["name"] for item in template["spec"]["arguments"]["parameters"]}
        assert names == {name.lower() for name in PARAMETERS}
        assert {item["name"] for item in template["spec"]["templates"][0]["inputs"]["parameters"]} == names

    def test_ci_may_do_what_the_script_does(self) -> None:
        rules = next(
            item["rules"] for item in documents(CHECKS / "cluster" / "access.yaml")
            if item["kind"] == "Role" and item["metadata"]["name"] == "modelctl-ci"
        )  # fmt: skip
        may = {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}
        for resource in ("jobs", "workflows"):
            assert {(resource, verb) for verb in ("create", "get", "list", "watch", "delete")} <= may
        assert {("pods", "list"), ("pods/log", "get")} <= may


def known(read: Any, wanted: Any) -> Any:
    """What was read, with numbers written as the file has them: a quantity may be text or a number."""
    if isinstance(wanted, dict) and isinstance(read, dict):
        return {key: known(value, wanted.get(key)) for key, value in read.items()}
    if isinstance(wanted, list) and isinstance(read, list) and len(wanted) == len(read):
        return [known(mine, theirs) for mine, theirs in zip(read, wanted, strict=True)]
    return wanted if isinstance(wanted, (str, int)) and str(read) == str(wanted) else read
