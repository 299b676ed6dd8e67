"""The `ModelValidation` of sigstore's model-validation-operator: pulled weights are also checked by their signature.

The operator's webhook appends an init container to pods with its label, behind ours, and gives it the mounts of the
pod's containers (internal/webhooks/pod_webhook.go): so the OpenSSF signature and the key are mounted into the engine's
container, which has no use for them. One resource serves all versions: which signature lies at its path is the pod's
own business, so stable and canary are each verified by theirs.
"""

from __future__ import annotations

from collections.abc import Mapping

from modelctl.rollout.beside import ModelValidation
from modelctl.rollout.environment import Environment
from modelctl.rollout.flags import weights_path
from modelctl.rollout.labels import labels
from modelctl.rollout.manifest import Json, Manifest, ServedRelease

LABEL = "validation.ml.sigstore.dev/ml"
FOLDER = "/signature"
SIGNATURE, KEY = "model.sig", "public.pem"
IMAGE_NOTE = (
    "the operator's own init container must be admitted by policies/cluster too: give the operator an image by digest"
)


def model_validation(environment: Environment, release: ServedRelease, name: str) -> Manifest | None:
    """The manifest; None where the environment has no operator."""
    wanted = environment.model_validation
    if wanted is None:
        return None
    return {
        "apiVersion": "ml.sigstore.dev/v1alpha1",
        "kind": "ModelValidation",
        "metadata": {"name": name, "namespace": environment.namespace, "labels": labels(name, environment)},
        "spec": {
            "config": _config(wanted),
            "model": {"path": weights_path(release), "signaturePath": f"{FOLDER}/{SIGNATURE}"},
        },
    }


def pod_labels(environment: Environment, name: str) -> Mapping[str, str]:
    """The label by which the operator finds a pod."""
    return {LABEL: name} if environment.model_validation is not None else {}


def volumes(environment: Environment, release: ServedRelease) -> list[Json]:
    """The signature of the release, and the key where one is named, as one folder."""
    wanted = environment.model_validation
    if wanted is None:
        return []
    own = f"{release.name}_{release.version}.sig"
    sources: list[Json] = [_file(wanted.signatures, own, SIGNATURE)]
    if wanted.public_key is not None:
        sources.append(_file(wanted.public_key, KEY, KEY))
    return [{"name": "signature", "projected": {"sources": sources}}]


def mounts(environment: Environment) -> list[Json]:
    """Where the folder is mounted."""
    if environment.model_validation is None:
        return []
    return [{"name": "signature", "mountPath": FOLDER, "readOnly": True}]


def _config(wanted: ModelValidation) -> Manifest:
    if wanted.identity is None:
        return {"publicKeyConfig": {"keyPath": f"{FOLDER}/{KEY}"}}
    return {
        "sigstoreConfig": {
            "certificateIdentity": wanted.identity.subject,
            "certificateOidcIssuer": wanted.identity.issuer,
        }
    }


def _file(config_map: str, key: str, path: str) -> Manifest:
    return {"configMap": {"name": config_map, "items": [{"key": key, "path": path}]}}
