from __future__ import annotations

import pytest

from modelctl.errors import InputError
from modelctl.rollout.canary import notes, require_possible, shares, strategy
from tests.support.rollouts import an_environment


@pytest.mark.parametrize(
    ("replicas", "spare", "weight", "canary", "stable"),
    [
        # The controller's own table for ten replicas that may surge by one …
        (10, 1, 1, 1, 10),
        (10, 1, 18, 2, 9),
        (10, 1, 20, 2, 8),
        (10, 1, 24, 3, 8),
        (10, 1, 99, 10, 1),
        # … and what it gives to few replicas.
        (9, 1, 10, 1, 9),
        (3, 1, 10, 1, 3),
        (3, 0, 10, 1, 2),
        (4, 1, 10, 1, 4),
        (5, 1, 50, 3, 3),
        (1, 1, 10, 1, 1),
        (2, 0, 99, 1, 1),
    ],
)
def test_the_share_is_what_the_pods_give(replicas: int, spare: int, weight: int, canary: int, stable: int) -> None:
    (share,) = shares(an_environment(replicas=replicas, gpu__spare=spare, canary__weights=[weight]), 1)
    assert (share.canary, share.stable) == (canary, stable)
    assert share.percent == pytest.approx(100 * canary / (canary + stable))


def test_ten_percent_needs_nine_replicas_and_one_spare() -> None:
    environment = an_environment(replicas=3, canary__weights=[10, 50])
    (note,) = notes(environment, shares(environment, 1), 1)
    assert "takes 25 % of the traffic instead of 10 %" in note
    assert "9 replicas" in note
    enough = an_environment(replicas=9)
    assert shares(enough, 1)[0].percent == 10
    assert notes(enough, shares(enough, 1), 1) == ()


@pytest.mark.parametrize(
    ("replicas", "spare", "given", "weights"), [(3, 0, "33.3", [34, 67]), (3, 1, "25", [25, 50, 75])]
)
def test_a_share_that_pods_cannot_give_is_refused_with_those_that_they_can(
    replicas: int, spare: int, given: str, weights: list[int]
) -> None:
    environment = an_environment(replicas=replicas, gpu__spare=spare, canary__weights=[10, 50])
    with pytest.raises(InputError) as caught:
        require_possible(environment, shares(environment, 1), 1)
    assert f"asks for 10 %, and {replicas} replicas" in caught.value.message
    assert f"{given} % of the traffic" in caught.value.message
    remedy = caught.value.remedy or ""
    assert f"some of {', '.join(map(str, weights))}; or {10 - spare} replicas; or a router" in remedy
    possible = an_environment(replicas=replicas, gpu__spare=spare, canary__weights=weights)
    found = shares(possible, 1)
    require_possible(possible, found, 1)
    assert [round(share.percent) for share in found] == [
        round(100 * n / (replicas + spare)) for n in range(1, len(weights) + 1)
    ]


def test_a_share_within_rounding_is_let_through() -> None:
    for environment in (an_environment(), an_environment(replicas=4, canary__weights=[10, 50])):
        require_possible(environment, shares(environment, 1), 1)


def test_no_spare_gpu_costs_capacity_and_says_so() -> None:
    environment = an_environment(replicas=10, gpu__spare=1)
    two_each = strategy(environment, "tiny", 2)["canary"]
    assert isinstance(two_each, dict)
    assert (two_each["maxSurge"], two_each["maxUnavailable"]) == (0, 1)
    assert any("one replica's capacity is missing" in note for note in notes(environment, shares(environment, 2), 2))


def test_a_step_that_changes_nothing_is_said() -> None:
    environment = an_environment(replicas=2, canary__weights=[10, 25, 50])
    assert any("weight 25 gives no more traffic" in note for note in notes(environment, shares(environment, 1), 1))


def test_one_replica_without_a_spare_gpu_can_run_no_canary() -> None:
    with pytest.raises(InputError) as caught:
        shares(an_environment(replicas=1, gpu__spare=0), 1)
    assert "all the traffic at once" in caught.value.message
    assert "gpu.spare" in (caught.value.remedy or "")


def test_a_router_gives_the_exact_share_when_the_gpus_are_there() -> None:
    gateway = {"kind": "gateway-api", "gateway": {"name": "public", "namespace": "gateways"}}
    environment = an_environment(replicas=3, gpu__spare=3, router=gateway)
    assert [(share.percent, share.canary, share.stable) for share in shares(environment, 1)] == [
        (10, 1, 3),
        (25, 1, 3),
        (50, 2, 3),
    ]
    with pytest.raises(InputError, match=r"the last step needs 3 spare GPUs, and gpu\.spare is 2"):
        shares(an_environment(replicas=3, gpu__spare=2, router=gateway), 1)


def test_each_weight_is_followed_by_a_pause_and_the_analysis_starts_at_the_first() -> None:
    canary = strategy(an_environment(), "tiny", 1)["canary"]
    assert isinstance(canary, dict)
    kinds = [next(iter(step)) for step in canary["steps"]]
    assert kinds == ["setWeight", "pause"] * 3
    assert canary["analysis"]["startingStep"] == 1
