"""Rules about the pods: what they serve and how it is proven, what they may do, what they need, how they end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from modelctl.rollout.lint.folder import Fault, Folder, Manifest, dig, items, table, whole
from modelctl.rollout.words import DIGEST_ANNOTATION, RELEASE_ANNOTATION

_QUANTITY = re.compile(r"\d+(\.\d+)?(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi)?")
_IMAGE = re.compile(r".+@sha256:[0-9a-f]{64}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
EXPLICIT_FLAGS = ("max-model-len", "max-num-seqs", "max-num-batched-tokens", "tensor-parallel-size", "block-size")
"""Engine defaults that have changed between releases."""


def check_pods(folder: Folder) -> Iterator[Fault]:
    """All faults of the folder's Rollouts' pods."""
    for rollout in folder.of_kind("Rollout"):
        pod = table(rollout.at("spec", "template", "spec"))
        yield from _identity(rollout, pod)
        yield from _pod_security(rollout, pod)
        for key in ("initContainers", "containers"):
            for container in items(dig(pod, key)):
                yield from _container(rollout, container)
        for container in items(dig(pod, "containers")):
            yield from _engine(rollout, pod, container)


def _identity(rollout: Manifest, pod: Mapping[str, Any]) -> Iterator[Fault]:
    outer = table(rollout.at("metadata", "annotations"))
    inner = table(rollout.at("spec", "template", "metadata", "annotations"))
    for key in (RELEASE_ANNOTATION, DIGEST_ANNOTATION):
        if not inner.get(key) or outer.get(key) != inner.get(key):
            yield rollout.fault(
                "identity",
                f"{key}: the Rollout says {outer.get(key)}, its pods say {inner.get(key)}; both have to say one",
            )
    digest = str(inner.get(DIGEST_ANNOTATION) or "")
    if digest and not _DIGEST.fullmatch(digest):
        yield rollout.fault("identity", f"{DIGEST_ANNOTATION} is '{digest}', wanted sha256: and 64 hex digits")
    words = [
        str(word)
        for container in items(dig(pod, "initContainers"))
        for key in ("command", "args")
        for word in items(dig(container, key))
    ]
    if digest and not any(digest in word for word in words):
        yield rollout.fault("unverified", f"no init container is given {digest[:19]}… to verify the weights against")


def _pod_security(rollout: Manifest, pod: Mapping[str, Any]) -> Iterator[Fault]:
    if pod.get("automountServiceAccountToken") is not False:
        yield rollout.fault(
            "token", "automountServiceAccountToken is not false: an engine needs no token of the cluster"
        )
    context = table(dig(pod, "securityContext"))
    if context.get("runAsNonRoot") is not True:
        yield rollout.fault("root", "securityContext.runAsNonRoot is not true")
    if dig(context, "seccompProfile", "type") not in ("RuntimeDefault", "Localhost"):
        yield rollout.fault("seccomp", "securityContext.seccompProfile is not RuntimeDefault")


def _container(rollout: Manifest, container: Any) -> Iterator[Fault]:
    name = dig(container, "name")
    image = str(dig(container, "image") or "")
    if not _IMAGE.fullmatch(image):
        yield rollout.fault("image", f"container {name} runs {image or 'no image'}: wanted one by digest (@sha256:…)")
    context = table(dig(container, "securityContext"))
    wanted = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True}
    for key, value in wanted.items():
        if context.get(key) is not value:
            yield rollout.fault("privileges", f"container {name}: {key} is not {str(value).lower()}")
    if "ALL" not in items(dig(context, "capabilities", "drop")):
        yield rollout.fault("privileges", f"container {name} keeps capabilities: capabilities.drop wants ALL")
    asked, limits = (table(dig(container, "resources", key)) for key in ("requests", "limits"))
    for kind, values in (("requests", asked), ("limits", limits)):
        for resource, quantity in values.items():
            if not _QUANTITY.fullmatch(str(quantity)):
                yield rollout.fault("quantity", f"container {name}: {kind}.{resource} '{quantity}' is no quantity")
    for resource in {*asked, *limits} - {"cpu", "memory", "ephemeral-storage"}:
        if asked.get(resource) != limits.get(resource):
            yield rollout.fault("gpu", f"container {name}: requests and limits of {resource} differ")
    if "memory" not in limits:
        yield rollout.fault("memory", f"container {name} has no memory limit")


def _engine(rollout: Manifest, pod: Mapping[str, Any], container: Any) -> Iterator[Fault]:
    words = [str(word) for word in (*items(dig(container, "command")), *items(dig(container, "args")))]
    flags = _flags(words)
    if "vllm" not in " ".join(words):
        return
    missing = [flag for flag in EXPLICIT_FLAGS if flag not in flags]
    if missing:
        yield rollout.fault("flags", f"leaves {', '.join('--' + flag for flag in missing)} to the engine's defaults")
    parallel = whole(flags.get("tensor-parallel-size"), 1)
    mounts = [dig(mount, "mountPath") for mount in items(dig(container, "volumeMounts"))]
    if parallel > 1 and "/dev/shm" not in mounts:  # noqa: S108 - a path in the pod
        yield rollout.fault("shared-memory", f"tensor-parallel-size is {parallel} and nothing is mounted at /dev/shm")
    pre_stop = whole(dig(container, "lifecycle", "preStop", "sleep", "seconds"), 0)
    needed = pre_stop + whole(flags.get("shutdown-timeout"), 0)
    grace = whole(pod.get("terminationGracePeriodSeconds"), 30)
    if grace <= needed:
        yield rollout.fault(
            "termination",
            f"terminationGracePeriodSeconds is {grace}: streams that may go on for {needed} s (preStop and "
            "--shutdown-timeout) are cut",
        )
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        if dig(container, probe) is None:
            yield rollout.fault("probe", f"container {dig(container, 'name')} has no {probe}")


def _flags(words: list[str]) -> Mapping[str, str]:
    """`--name=value` and `--name value`, names with dashes."""
    found: dict[str, str] = {}
    for index, word in enumerate(words):
        if word.startswith("--"):
            name, is_whole, value = word[2:].partition("=")
            following = words[index + 1] if index + 1 < len(words) else ""
            found[name.replace("_", "-")] = value if is_whole else "" if following.startswith("--") else following
    return found
