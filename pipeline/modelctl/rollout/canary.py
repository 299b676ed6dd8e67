"""The canary strategy: weights, pauses, and the share of traffic that the replicas or the router really give.

Without a router the share is bounded by the number of pods. The choice of pods is Argo Rollouts' own
(`approximateWeightedCanaryStableReplicaCounts` in utils/replicaset/canary.go): of the whole numbers around
`replicas * weight`, over `replicas` or over one pod more when it may surge, the closest to the weight; never zero pods
for a weight of 1 to 99.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from modelctl.errors import InputError
from modelctl.rollout.environment import Environment
from modelctl.rollout.manifest import Json, Manifest
from modelctl.rollout.routes import traffic_routing

TWICE = 2
"""So many times the asked share is no rounding any more: the step is refused."""


@dataclass(frozen=True, kw_only=True)
class Share:
    """What one `setWeight` really gives."""

    weight: int
    """Asked for, in percent."""
    canary: int
    """Pods of the new release."""
    stable: int
    """Pods of the stable release at the same time."""
    by_router: bool

    @property
    def percent(self) -> float:
        """Share of the traffic that the new release gets, in percent."""
        return float(self.weight) if self.by_router else 100 * self.canary / (self.canary + self.stable)

    def __str__(self) -> str:
        pods = f"{self.canary} of {self.canary + self.stable} pods"
        return f"{self.weight} % asked, {self.percent:.3g} % given ({pods})"


def shares(environment: Environment, gpus_per_replica: int) -> tuple[Share, ...]:
    """What each weight gives. Raises `InputError` when the environment can't run a canary at all."""
    surge = surge_replicas(environment, gpus_per_replica)
    if environment.router.kind != "replicas":
        _require_spare(environment, gpus_per_replica)
        return tuple(
            Share(
                weight=weight,
                canary=math.ceil(environment.replicas * weight / 100),
                stable=environment.replicas,
                by_router=True,
            )
            for weight in environment.canary.weights
        )
    if environment.replicas == 1 and surge == 0:
        raise InputError(
            "one replica and no spare GPU: a canary would take all the traffic at once",
            remedy="set replicas to 2 or more, or gpu.spare to what one replica needs, in environment.yaml",
        )
    return tuple(_by_replicas(weight, environment.replicas, surge) for weight in environment.canary.weights)


def require_possible(environment: Environment, given: Sequence[Share], gpus_per_replica: int) -> None:
    """Raise `InputError` where a step would take more than twice the traffic that was asked for.

    The error says which weights the pods can give, and what would make the asked ones possible.
    """
    wrong = next((share for share in given if share.percent > TWICE * share.weight), None)
    if wrong is None:
        return
    surge = surge_replicas(environment, gpus_per_replica)
    whole = environment.replicas + surge
    possible = sorted({min(99, math.ceil(100 * pods / whole)) for pods in range(1, whole)})
    shown = ", ".join(map(str, possible[:6]))
    raise InputError(
        f"environment.yaml: canary.weights asks for {wrong.weight} %, and {environment.replicas} replicas"
        f"{' and one more' if surge else ''} can't give it: the canary would take {wrong.percent:.3g} % of the traffic",
        remedy=f"set canary.weights to some of {shown}; or {_replicas_for(wrong.weight, surge)} replicas; or a router "
        "(router.kind), which gives any share",
    )


def surge_replicas(environment: Environment, gpus_per_replica: int) -> int:
    """Replicas that fit beside the running ones: 1 when there are spare GPUs for one, else 0."""
    return 1 if environment.gpu.spare >= max(1, gpus_per_replica) else 0


def notes(environment: Environment, given: Sequence[Share], gpus_per_replica: int) -> tuple[str, ...]:
    """What a person should know about the shares, one sentence each."""
    found = []
    first = given[0]
    if first.percent > first.weight * 1.2:
        surge = surge_replicas(environment, gpus_per_replica)
        wanted = _replicas_for(first.weight, surge)
        found.append(
            f"the first step takes {first.percent:.3g} % of the traffic instead of {first.weight} %: without a router "
            f"the number of pods decides; {wanted} replicas or a router (router.kind) would give {first.weight} %"
        )
    if environment.autoscaling is not None:
        found.append(f"these shares are for {environment.replicas} replicas, the least number; more make finer ones")
    same = [later.weight for earlier, later in pairwise(given) if later.percent <= earlier.percent]
    if same:
        found.append(f"weight {', '.join(map(str, same))} gives no more traffic than the step before it")
    if environment.router.kind == "replicas" and surge_replicas(environment, gpus_per_replica) == 0:
        found.append(
            "no spare GPU: each step takes a stable pod away before the new one loads, so one replica's capacity is "
            "missing while the weights load"
        )
    return tuple(found)


def strategy(environment: Environment, name: str, gpus_per_replica: int) -> Manifest:
    """`spec.strategy` of the Rollout. The analysis runs in the background from the first pause on."""
    canary = environment.canary
    surge = surge_replicas(environment, gpus_per_replica)
    steps: list[Json] = []
    for weight in canary.weights:
        steps += [{"setWeight": weight}, {"pause": {"duration": f"{canary.pause_s}s"}}]
    return {
        "canary": {
            "stableService": f"{name}-stable",
            "canaryService": f"{name}-canary",
            "maxSurge": surge,
            "maxUnavailable": 0 if surge else 1,
            **traffic_routing(environment, name),
            "analysis": {
                "templates": [{"templateName": f"{name}-canary"}],
                "startingStep": 1,
                "args": [
                    {"name": "canary-hash", "valueFrom": {"podTemplateHashValue": "Latest"}},
                    {"name": "stable-hash", "valueFrom": {"podTemplateHashValue": "Stable"}},
                ],
            },
            "steps": steps,
        }
    }


def _replicas_for(weight: int, surge: int) -> int:
    return math.ceil(100 / weight) - surge


def _by_replicas(weight: int, replicas: int, surge: int) -> Share:
    up, down = math.ceil(replicas * weight / 100), replicas * weight // 100
    options: list[tuple[int, int]] = [(up, replicas)] if up < replicas else []
    for total in (replicas, replicas + 1) if surge else (replicas,):
        if total > replicas:
            options.append((up, total))
        tied = total * weight % 100 == 50
        if down > 0 and not tied:
            options.append((down, total))
    canary, total = min(options, key=lambda option: abs(100 * option[0] / option[1] - weight))
    return Share(weight=weight, canary=canary, stable=total - canary, by_router=False)


def _require_spare(environment: Environment, gpus_per_replica: int) -> None:
    needed = environment.replicas * max(1, gpus_per_replica)
    if environment.gpu.spare < needed:
        raise InputError(
            f"router {environment.router.kind} keeps every stable pod until the end: the last step needs {needed} "
            f"spare GPUs, and gpu.spare is {environment.gpu.spare}",
            remedy="raise gpu.spare when the cluster has them, or use router.kind replicas",
        )
