from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from modelctl.rollout.flags import engine_arguments
from modelctl.rollout.render import render, render_manifests
from tests.support.rollouts import DIGEST, PROJECT, PULLER, a_release, a_serving, an_environment, documents

ENGINE = PROJECT / ".venv-engine" / "bin" / "python"


def rollout(gpus: int = 1, **changes: Any) -> dict[str, Any]:
    text = render(a_release(), a_serving(gpus=gpus), an_environment(**changes)).files["rollout.yaml"]
    (document,) = documents(text)
    return document


def test_the_object_and_its_pods_name_release_and_digest() -> None:
    document = rollout()
    wanted = {"modelctl.dev/release": "tiny@1.0.0", "modelctl.dev/tree-digest": DIGEST}
    assert document["metadata"]["annotations"] == wanted
    assert document["spec"]["template"]["metadata"]["annotations"] == wanted


def test_the_weights_are_verified_before_the_engine_starts() -> None:
    pod = rollout()["spec"]["template"]["spec"]
    (puller,) = pod["initContainers"]
    assert puller["image"] == PULLER
    assert puller["command"] == ["modelctl", "pull", "tiny@1.0.0", "/models/tiny", "--digest", DIGEST]
    assert {item["name"] for item in puller["env"] if "valueFrom" in item} == {
        "MODELCTL_STORE_ACCESS_KEY",
        "MODELCTL_STORE_SECRET_KEY",
    }
    (engine,) = pod["containers"]
    assert {"name": "weights", "mountPath": "/models", "readOnly": True} in engine["volumeMounts"]


def test_a_pod_has_no_rights_that_it_does_not_need() -> None:
    pod = rollout()["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in (*pod["initContainers"], *pod["containers"]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
        assert "@sha256:" in container["image"]


def test_gpu_requests_equal_limits_and_the_node_is_tolerated() -> None:
    pod = rollout(gpus=4, gpu={"spare": 4, "product": "H100"})["spec"]["template"]["spec"]
    resources = pod["containers"][0]["resources"]
    assert resources["requests"] == resources["limits"]
    assert resources["limits"]["nvidia.com/gpu"] == 4
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": "H100"}
    assert {"name": "shm", "emptyDir": {"medium": "Memory"}} in pod["volumes"]


def test_an_engine_without_a_gpu_asks_for_none() -> None:
    pod = rollout(gpu={"count": 0, "spare": 1})["spec"]["template"]["spec"]
    engine = pod["containers"][0]
    assert "nvidia.com/gpu" not in engine["resources"]["limits"]
    assert not any("gpu-memory" in word for word in engine["args"])
    assert {"name": "VLLM_CPU_KVCACHE_SPACE", "value": "4"} in engine["env"]
    assert "tolerations" not in pod


def test_patience_covers_the_slow_and_no_more() -> None:
    document = rollout(engine={"load_timeout_s": 900, "shutdown_timeout_s": 120})
    assert document["spec"]["progressDeadlineSeconds"] >= 2 * 900
    assert document["spec"]["progressDeadlineAbort"] is True
    pod = document["spec"]["template"]["spec"]
    engine = pod["containers"][0]
    startup = engine["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 900
    pre_stop = engine["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod["terminationGracePeriodSeconds"] > pre_stop + 120
    assert "--shutdown-timeout=120" in engine["args"]


def test_the_releases_block_size_wins_over_the_environments() -> None:
    asked = an_environment(), a_serving().model_copy(update={"block_size": 64})
    assert "--block-size=64" in engine_arguments(a_release(), asked[1], asked[0])
    assert "--block-size=16" in engine_arguments(a_release(), a_serving(), asked[0])


def test_no_label_changes_from_one_release_to_the_next() -> None:
    one, two = (
        render_manifests(a_release(version=version), a_serving(), an_environment())["rollout.yaml"][0]
        for version in ("1.0.0", "2.0.0")
    )
    assert isinstance(one["spec"], dict)
    assert isinstance(two["spec"], dict)
    assert one["spec"]["selector"] == two["spec"]["selector"]


@pytest.mark.engine
@pytest.mark.parametrize("gpus", [0, 2])
def test_a_real_engine_understands_every_flag(gpus: int, tmp_path: Path) -> None:
    environment = an_environment(gpu={"count": gpus, "spare": 2})
    arguments = engine_arguments(a_release(), a_serving(gpus=gpus), environment)
    assert ENGINE.is_file(), "the engine's environment is missing: make setup"
    program = (
        "import sys\n"
        "from vllm.entrypoints.launchers.cli_args import make_arg_parser\n"
        "from vllm.utils.argparse_utils import FlexibleArgumentParser\n"
        "parsed = make_arg_parser(FlexibleArgumentParser()).parse_args(sys.argv[2:])\n"
        "print(parsed.max_model_len, parsed.block_size, parsed.shutdown_timeout, parsed.tensor_parallel_size)\n"
    )
    done = subprocess.run(
        [str(ENGINE), "-I", "-c", program, *arguments], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split()[-4:] == ["8192", "16", "300", str(max(1, gpus))]
