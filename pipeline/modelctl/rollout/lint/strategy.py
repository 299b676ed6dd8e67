"""Rules about a Rollout's canary: steps that measure, analyses that exist, one owner of the replicas."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from modelctl.rollout.lint.folder import Fault, Folder, Manifest, dig, items, table, whole

DURATION = re.compile(r"\d+(s|m|h)?")
"""What Argo Rollouts reads: whole seconds, or a number with s, m or h."""
KEDA_KEYS = frozenset(
    [
        "serverAddress",
        "query",
        "threshold",
        "activationThreshold",
        "namespace",
        "customHeaders",
        "ignoreNullValues",
        "queryParameters",
        "unsafeSsl",
        "authModes",
        "timeout",
        "metricName",
    ]
)
"""Of the `prometheus` trigger (KEDA 2.x documentation); KEDA ignores every other one without a word."""


def check_strategy(folder: Folder) -> Iterator[Fault]:
    """All faults of the folder's Rollouts and ScaledObjects in these regards."""
    for rollout in folder.of_kind("Rollout"):
        yield from _strategy(rollout, folder)
        yield from _patience(rollout)
    for scaled in folder.of_kind("ScaledObject"):
        yield from _scaling(scaled, folder)


def _strategy(rollout: Manifest, folder: Folder) -> Iterator[Fault]:
    strategies = table(dig(rollout.body, "spec", "strategy"))
    if list(strategies) != ["canary"]:
        found = ", ".join(map(str, strategies)) or "none"
        yield rollout.fault("strategy", f"wants exactly one strategy, canary; found {found}")
        return
    canary = table(strategies["canary"])
    yield from _steps(rollout, items(canary.get("steps")))
    for key in ("stableService", "canaryService"):
        service = canary.get(key)
        if not service:
            yield rollout.fault("service", f"names no {key}")
        elif not folder.has("Service", str(service)):
            yield rollout.fault("service", f"{key} {service} is not among the folder's Services")
    analyses = [canary.get("analysis"), *(dig(step, "analysis") for step in items(canary.get("steps")))]
    templates = [template for analysis in analyses for template in items(dig(analysis, "templates"))]
    if not templates:
        yield rollout.fault("analysis", "nothing is measured: no analysis in the background, none among the steps")
    for template in templates:
        name = dig(template, "templateName")
        if dig(template, "clusterScope") is not True and not folder.has("AnalysisTemplate", str(name)):
            yield rollout.fault("analysis", f"AnalysisTemplate {name} is not in the folder")


def _steps(rollout: Manifest, steps: Any) -> Iterator[Fault]:
    if not any("setWeight" in step for step in steps if isinstance(step, dict)):
        yield rollout.fault("steps", "has no setWeight: the new release would get all the traffic at once")
    for index, step in enumerate(steps):
        following = steps[index + 1] if index + 1 < len(steps) else None
        weight = dig(step, "setWeight")
        if weight is not None:
            if not isinstance(weight, int) or not 1 <= weight <= 100:
                yield rollout.fault("weight", f"setWeight {weight}: wanted a whole number from 1 to 100")
            if dig(following, "pause") is None and dig(following, "analysis") is None:
                yield rollout.fault(
                    "no-pause", f"setWeight {weight} is followed by no pause: nothing is measured at it"
                )
        duration = dig(step, "pause", "duration")
        if duration is not None and not DURATION.fullmatch(str(duration)):
            yield rollout.fault("duration", f"pause '{duration}': wanted seconds, or a number with s, m or h")


def _patience(rollout: Manifest) -> Iterator[Fault]:
    spec = table(dig(rollout.body, "spec"))
    if spec.get("progressDeadlineAbort") is not True:
        yield rollout.fault("deadline", "progressDeadlineAbort is not true: a canary that never loads stays for ever")
    deadline = whole(spec.get("progressDeadlineSeconds"), 600)
    for container in items(dig(spec, "template", "spec", "containers")):
        probe = table(dig(container, "startupProbe"))
        patience = whole(probe.get("periodSeconds"), 10) * whole(probe.get("failureThreshold"), 3)
        if probe and deadline < patience:
            yield rollout.fault(
                "deadline",
                f"progressDeadlineSeconds is {deadline}, and the startup probe alone waits {patience} s for weights",
            )


def _scaling(scaled: Manifest, folder: Folder) -> Iterator[Fault]:
    target = str(scaled.at("spec", "scaleTargetRef", "name"))
    for rollout in folder.of_kind("Rollout"):
        if rollout.name == target and dig(rollout.body, "spec", "replicas") is not None:
            yield rollout.fault("replicas", f"spec.replicas and ScaledObject {scaled.name} both own the number")
    if not folder.has("Rollout", target):
        yield scaled.fault("target", f"scales {target}, which is no Rollout of this folder")
    for trigger in items(scaled.at("spec", "triggers")):
        if dig(trigger, "type") != "prometheus":
            continue
        metadata = table(dig(trigger, "metadata"))
        for key in sorted(set(map(str, metadata)) - KEDA_KEYS):
            yield scaled.fault("trigger", f"KEDA's prometheus trigger knows no '{key}', and says nothing of it")
        if metadata.get("ignoreNullValues") != "false":
            yield scaled.fault("null-values", 'ignoreNullValues is not "false": a missing metric scales to the least')
