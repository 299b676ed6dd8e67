"""The weights' signature is verified by sigstore's operator where an environment has it, each release by its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from modelctl.errors import InputError
from modelctl.rollout.render import render
from tests.support.rollouts import a_release, a_serving, an_environment, documents

KEY = {"public_key": "model-key"}
PERSON = {
    "identity": {"subject": "a@example.com", "issuer": "https://accounts.example.com"},
}


def rendered(validation: dict[str, Any], version: str = "1.0.0") -> tuple[dict[str, Any], dict[str, Any]]:
    files = render(a_release(version=version), a_serving(), an_environment(model_validation=validation)).files
    resource, signature = documents(files["model-validation.yaml"])
    assert signature["data"] == {"model.sig": f'{{"bundle": "of tiny@{version}"}}'}
    assert signature["metadata"]["name"] in files["rollout.yaml"]
    assert signature["metadata"]["annotations"]["argocd.argoproj.io/sync-options"] == "Prune=false"
    (rollout,) = documents(files["rollout.yaml"])
    return resource, rollout["spec"]["template"]


def test_the_operator_is_told_what_to_verify_by_which_key() -> None:
    resource, pod = rendered(KEY)
    assert resource["spec"] == {
        "config": {"publicKeyConfig": {"keyPath": "/signature/public.pem"}},
        "model": {"path": "/models/tiny", "signaturePath": "/signature/model.sig"},
    }
    assert pod["metadata"]["labels"]["validation.ml.sigstore.dev/ml"] == resource["metadata"]["name"]
    # The operator's container is given the mounts of the pod's containers: all three paths are in them.
    mounted = {mount["mountPath"]: mount["name"] for mount in pod["spec"]["containers"][0]["volumeMounts"]}
    assert mounted["/models"] == "weights"
    assert mounted["/signature"] == "signature"
    (volume,) = [item for item in pod["spec"]["volumes"] if item["name"] == "signature"]
    paths = [item["path"] for source in volume["projected"]["sources"] for item in source["configMap"]["items"]]
    assert paths == ["model.sig", "public.pem"]


def test_each_release_has_its_own_signature_and_all_share_the_resource() -> None:
    (one, pod), (two, other) = rendered(KEY), rendered(KEY, "2.0.0")
    assert one == two
    mounted = [str(item["spec"]["volumes"]) for item in (pod, other)]
    assert mounted[0] != mounted[1]


def test_a_release_without_a_signature_is_refused() -> None:
    unsigned = replace(a_release(), signature=None)
    with pytest.raises(InputError, match=r"tiny@1\.0\.0 has no model\.sig") as caught:
        render(unsigned, a_serving(), an_environment(model_validation=KEY))
    assert "ECDSA" in (caught.value.remedy or "")
    assert render(unsigned, a_serving(), an_environment()).files


def test_a_person_may_vouch_instead_of_a_key() -> None:
    resource, pod = rendered(PERSON)
    assert resource["spec"]["config"] == {
        "sigstoreConfig": {
            "certificateIdentity": "a@example.com",
            "certificateOidcIssuer": "https://accounts.example.com",
        }
    }
    assert "public.pem" not in str(pod)


def test_the_digest_is_verified_all_the_same() -> None:
    _, pod = rendered(KEY)
    assert [item["name"] for item in pod["spec"]["initContainers"]] == ["verified-weights"]


@pytest.mark.parametrize("changed", [{"public_key": None}, {"identity": PERSON["identity"]}])
def test_one_of_key_and_person_is_wanted(changed: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="either 'public_key' or 'identity'"):
        an_environment(model_validation={key: value for key, value in {**KEY, **changed}.items() if value})


def test_without_files_there_is_nothing_to_verify() -> None:
    with pytest.raises(InputError, match="with weights 'stream' there are none"):
        an_environment(model_validation=KEY, weights="stream")
