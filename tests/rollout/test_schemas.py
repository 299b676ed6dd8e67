"""What we render is what the API servers accept: strict built-in schemas, the official custom ones, and kustomize."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from tests.rollout.test_render import KINDS, rendered
from tests.support.rollouts import CRDS, PROJECT, documents

BUILT_IN = (
    "Service",
    "PodDisruptionBudget",
    "NetworkPolicy",
    "Ingress",
    "ConfigMap",
    "Deployment",
    "Namespace",
    "ValidatingAdmissionPolicy",
)
FOLDERS = (PROJECT / "gitops" / "bootstrap", PROJECT / "policies" / "cluster")
LOCAL = {"Kustomization"}


def all_documents(kind: str) -> list[dict[str, Any]]:
    return [document for text in rendered(kind).values() for document in documents(text)]


def shipped_documents() -> list[dict[str, Any]]:
    files = [file for folder in FOLDERS for file in sorted(folder.glob("*.yaml"))]
    return [document for file in files for document in documents(file.read_text(encoding="utf-8"))]


@cache
def custom_schemas() -> dict[tuple[str, str], dict[str, Any]]:
    """Schemas by (apiVersion, kind), made strict: a key that no schema knows is an error."""
    schemas = {}
    for path in CRDS.glob("*.yaml"):
        crd = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)["spec"]
        for version in crd["versions"]:
            key = (f"{crd['group']}/{version['name']}", crd["names"]["kind"])
            schemas[key] = strict(version["schema"]["openAPIV3Schema"], top=True)
    return schemas


def strict(schema: dict[str, Any], *, top: bool = False) -> dict[str, Any]:
    found = dict(schema)
    if "properties" in found:
        found["properties"] = {
            key: value if top and key == "metadata" else strict(value) for key, value in found["properties"].items()
        }
        if not found.get("x-kubernetes-preserve-unknown-fields"):
            found.setdefault("additionalProperties", False)
    if isinstance(found.get("items"), dict):
        found["items"] = strict(found["items"])
    if isinstance(found.get("additionalProperties"), dict):
        found["additionalProperties"] = strict(found["additionalProperties"])
    if found.get("x-kubernetes-int-or-string"):
        found.pop("type", None)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_built_in_kinds_and_the_pods_are_valid(kind: str) -> None:
    seen = set()
    for document in all_documents(kind):
        if document["kind"] in BUILT_IN:
            kubernetes_validate.validate(document, "1.32", strict=True)
            seen.add(document["kind"])
        if document["kind"] == "Rollout":
            pod = {"apiVersion": "v1", "kind": "Pod", **document["spec"]["template"]}
            kubernetes_validate.validate(pod, "1.32", strict=True)
            seen.add("Pod")
    assert seen - {"NetworkPolicy", "Ingress", "ConfigMap", "Deployment"} == {"Service", "PodDisruptionBudget", "Pod"}


def test_what_the_cluster_gets_once_is_valid() -> None:
    seen = set()
    for document in shipped_documents():
        if document["kind"] in (*BUILT_IN, "ValidatingAdmissionPolicyBinding"):
            kubernetes_validate.validate(document, "1.32", strict=True)
            seen.add(document["kind"])
    assert seen == {"Namespace", "ConfigMap", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}


@pytest.mark.skipif(not CRDS.is_dir(), reason="the official schemas do not lie beside the project")
@pytest.mark.parametrize("kind", [*KINDS, "shipped"])
def test_custom_kinds_are_valid(kind: str) -> None:
    schemas = custom_schemas()
    seen = set()
    for document in shipped_documents() if kind == "shipped" else all_documents(kind):
        schema = schemas.get((document["apiVersion"], document["kind"]))
        if schema is None:
            assert document["kind"] in (
                *BUILT_IN,
                *LOCAL,
                "ValidatingAdmissionPolicyBinding",
                "HTTPRoute",
                "VirtualService",
                "ModelValidation",
            )
            continue
        jsonschema.Draft202012Validator(schema).validate(document)
        seen.add(document["kind"])
    applied = {"AppProject", "ApplicationSet", "Application"}
    always = {"Rollout", "AnalysisTemplate", "PodMonitor", "PrometheusRule"}
    assert seen == (applied if kind == "shipped" else always | ({"ScaledObject"} if kind == "nginx" else set()))


@pytest.mark.parametrize("kind", KINDS)
def test_kustomize_builds_the_folder(kind: str, tmp_path: Path) -> None:
    files = rendered(kind)
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    built = list(documents(kustomize(tmp_path)))
    wanted = [document["kind"] for document in all_documents(kind) if document["kind"] != "Kustomization"]
    assert sorted(document["kind"] for document in built) == sorted(wanted)
    fronts = {"models-prod-front"} if kind == "cpu" else set()
    assert {document["metadata"]["namespace"] for document in built} == {"models-prod"} | fronts


def test_bootstrap_takes_the_repository_from_one_place() -> None:
    text = kustomize(PROJECT / "gitops" / "bootstrap")
    assert "set-by-kustomize" not in text
    built = {(document["kind"], document["metadata"]["name"]): document for document in documents(text)}
    assert not any(kind == "ConfigMap" for kind, _ in built)
    generators = built["ApplicationSet", "models"]["spec"]["generators"][0]["matrix"]["generators"]
    assert {item["git"]["repoURL"] for item in generators} == {"https://git.example.com/ml/models.git"}


def test_argo_cd_may_make_every_kind_that_we_render_and_none_else() -> None:
    (project,) = [
        doc for doc in shipped_documents() if doc["kind"] == "AppProject" and doc["metadata"]["name"] == "models"
    ]
    allowed = {(item["group"], item["kind"]) for item in project["spec"]["namespaceResourceWhitelist"]}
    rendered_kinds = {
        (document["apiVersion"].rpartition("/")[0], document["kind"])
        for kind in KINDS
        for document in all_documents(kind)
        if document["kind"] not in LOCAL
    }
    assert allowed == rendered_kinds
    assert project["spec"]["clusterResourceWhitelist"] == []


def kustomize(folder: Path) -> str:
    return subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(not CRDS.is_dir(), reason="the official schemas do not lie beside the project")
def test_a_misspelt_key_would_be_seen() -> None:
    (rollout,) = documents(rendered("replicas")["rollout.yaml"])
    rollout["spec"]["strategy"]["canary"]["maxSurges"] = 1
    with pytest.raises(jsonschema.ValidationError, match="maxSurges"):
        jsonschema.Draft202012Validator(custom_schemas()["argoproj.io/v1alpha1", "Rollout"]).validate(rollout)
