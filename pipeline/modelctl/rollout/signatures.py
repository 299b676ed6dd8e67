"""The `ModelValidation` of sigstore's model-validation-operator: pulled weights are also checked by their signature.

The operator's webhook appends an init container to pods with its label, behind ours, and gives it the mounts of the
pod's containers (internal/webhooks/pod_webhook.go): so the OpenSSF signature and the key are mounted into the engine's
container, which has no use for them. One resource serves all versions: which signature lies at its path is the pod's
own business, so stable and canary are each verified by theirs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from modelctl.errors import InputError
from modelctl.rollout.beside import ModelValidation
from modelctl.rollout.environment import Environment
from modelctl.rollout.flags import weights_path
from modelctl.rollout.labels import BEFORE_PODS, labels
from modelctl.rollout.manifest import Json, Manifest, ServedRelease

LABEL = "validation.ml.sigstore.dev/ml"
FOLDER = "/signature"
SIGNATURE, KEY = "model.sig", "public.pem"
KEPT: Mapping[str, str] = {
    "argocd.argoproj.io/sync-options": "Prune=false",
    "argocd.argoproj.io/compare-options": "IgnoreExtraneous",
}
"""A canary's manifests don't hold the stable release's signature, which its pods need to start anew."""
IMAGE_NOTE = (
    "the operator's own init container must be admitted by policies/cluster too: give the operator an image by digest"
)


def model_validation(environment: Environment, release: ServedRelease, name: str) -> tuple[Manifest, ...]:
    """The resource and the release's signature; none where the environment has no operator.

    Raises `InputError` for a release that was published without one.
    """
    wanted = environment.model_validation
    if wanted is None:
        return ()
    metadata: Manifest = {"namespace": environment.namespace, "labels": labels(name, environment)}
    resource: Manifest = {
        "apiVersion": "ml.sigstore.dev/v1alpha1",
        "kind": "ModelValidation",
        "metadata": {"name": name, **metadata, "annotations": BEFORE_PODS},
        "spec": {
            "config": _config(wanted),
            "model": {"path": weights_path(release), "signaturePath": f"{FOLDER}/{SIGNATURE}"},
        },
    }
    signature: Manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _config_map(release, name), **metadata, "annotations": {**BEFORE_PODS, **KEPT}},
        "data": {SIGNATURE: _signature(release)},
    }
    return (resource, signature)


def pod_labels(environment: Environment, name: str) -> Mapping[str, str]:
    """The label by which the operator finds a pod."""
    return {LABEL: name} if environment.model_validation is not None else {}


def volumes(environment: Environment, release: ServedRelease, name: str) -> list[Json]:
    """The signature of the release, and the key where one is named, as one folder."""
    wanted = environment.model_validation
    if wanted is None:
        return []
    sources: list[Json] = [_file(_config_map(release, name), SIGNATURE)]
    if wanted.public_key is not None:
        sources.append(_file(wanted.public_key, KEY))
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


def _file(config_map: str, key: str) -> Manifest:
    return {"configMap": {"name": config_map, "items": [{"key": key, "path": key}]}}


def _config_map(release: ServedRelease, name: str) -> str:
    return f"{name}-signature-{hashlib.sha256(_signature(release).encode()).hexdigest()[:8]}"


def _signature(release: ServedRelease) -> str:
    if release.signature is None:
        raise InputError(
            f"{release.id} has no model.sig, by which this environment's model_validation verifies it",
            remedy="publish with an ECDSA key (signing.key or signing.model_key), as a new version",
        )
    return release.signature
