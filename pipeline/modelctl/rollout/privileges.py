"""What the pods of a rollout may do: the least, in the words of the Pod Security Standard "restricted"."""

from __future__ import annotations

from modelctl.rollout.manifest import Manifest

USER_ID = 10001


def pod_security() -> Manifest:
    """`securityContext` of a pod: an unprivileged user, and the runtime's own filter of system calls."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER_ID,
        "runAsGroup": USER_ID,
        "fsGroup": USER_ID,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> Manifest:
    """`securityContext` of a container: no way to more privileges, and a root file system that can't be written."""
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True}
