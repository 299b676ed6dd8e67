"""The cluster's admission policy, evaluated with a CEL interpreter as the API server would."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from cel_expr_python import cel
from cel_expr_python.ext import ext_optional, ext_strings

from modelctl.rollout.manifest import DIGEST_ANNOTATION, RELEASE_ANNOTATION
from modelctl.rollout.published import with_release
from modelctl.rollout.render import render
from tests.support.rollouts import DIGEST, NOTHING_PUBLISHED, PROJECT, a_release, a_serving, an_environment, documents

POLICY, BINDING = documents((PROJECT / "policies" / "cluster" / "policy.yaml").read_text(encoding="utf-8"))
EMPTY = NOTHING_PUBLISHED
NAMES = dict.fromkeys(("object", "params", "variables"), cel.Type.DYN)
ENV = cel.NewEnv(variables=NAMES, extensions=[ext_strings.ExtStrings(), ext_optional.ExtOptional()])


def refusals(pod: dict[str, Any], published: str) -> list[str]:
    """The messages of the validations that a pod fails."""
    (params,) = documents(published)
    data: dict[str, Any] = {"object": pod, "params": params, "variables": {}}
    for variable in POLICY["spec"]["variables"]:
        data["variables"][variable["name"]] = ENV.compile(variable["expression"]).eval(data=data).value()
    messages = []
    for validation in POLICY["spec"]["validations"]:
        if ENV.compile(validation["expression"]).eval(data=data).value() is not True:
            expression = validation.get("messageExpression")
            messages.append(ENV.compile(expression).eval(data=data).value() if expression else validation["message"])
    return messages


def rendered_pod(version: str = "1.0.0") -> dict[str, Any]:
    """The pod that a rendered Rollout makes."""
    text = render(a_release(version=version), a_serving(), an_environment()).files["rollout.yaml"]
    (rollout,) = documents(text)
    return {"apiVersion": "v1", "kind": "Pod", **copy.deepcopy(rollout["spec"]["template"])}


@pytest.fixture
def published() -> str:
    return with_release(with_release(EMPTY, a_release()), a_release(name="other", digest="sha256:" + "0" * 64))


def test_a_pod_of_a_published_release_is_let_in(published: str) -> None:
    assert refusals(rendered_pod(), published) == []


def test_nothing_is_let_in_before_anything_is_published() -> None:
    (message,) = refusals(rendered_pod(), EMPTY)
    assert "tiny@1.0.0 is not published for this cluster" in message


def test_an_unpublished_version_is_refused(published: str) -> None:
    (message,) = refusals(rendered_pod("1.0.1"), published)
    assert "tiny@1.0.1 is not published" in message


def test_another_digest_is_refused_and_both_are_named(published: str) -> None:
    pod = rendered_pod()
    pod["metadata"]["annotations"][DIGEST_ANNOTATION] = "sha256:" + "0" * 64
    (message,) = refusals(pod, published)
    assert DIGEST in message
    assert "sha256:" + "0" * 64 in message


@pytest.mark.parametrize("missing", [RELEASE_ANNOTATION, DIGEST_ANNOTATION, None])
def test_a_pod_that_does_not_say_what_it_serves_is_refused(missing: str | None, published: str) -> None:
    pod = rendered_pod()
    if missing is None:
        del pod["metadata"]["annotations"]
    else:
        del pod["metadata"]["annotations"][missing]
    assert any("must carry the annotations" in message for message in refusals(pod, published))


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_an_image_by_tag_is_refused(kind: str, published: str) -> None:
    pod = rendered_pod()
    pod["spec"][kind][0]["image"] = "vllm/vllm-openai:latest"
    assert refusals(pod, published) == ["every image must be named by its digest"]


def test_a_missing_list_denies() -> None:
    assert BINDING["spec"]["paramRef"]["parameterNotFoundAction"] == "Deny"
    assert BINDING["spec"]["validationActions"][0] == "Deny"
    assert POLICY["spec"]["failurePolicy"] == "Fail"
