from __future__ import annotations

import asyncio

import pytest

from modelctl.checks.stress.cliff import Cliff, Probe, find_cliff


def search(
    works: int | None, fails: int, breaks_at: int, *, step: int = 1, most: int = 99, dead: bool = False
) -> Cliff:
    async def probe(length: int) -> Probe:
        return "works" if length < breaks_at else "dead" if dead else "fails"

    return asyncio.run(find_cliff(works, fails, step=step, most=most, probe=probe))


@pytest.mark.parametrize("breaks_at", [129, 200, 1000, 131072])
def test_every_cliff_is_found_exactly_with_a_step_of_one(breaks_at: int) -> None:
    found = search(128, 131072, breaks_at)
    assert (found.works, found.fails, found.ended) == (breaks_at - 1, breaks_at, None)
    assert found.tried <= 17


def test_a_step_ends_the_search_early_and_the_two_lengths_are_within_it() -> None:
    found = search(128, 131072, 70000, step=128)
    assert found.works is not None
    assert found.works < 70000 <= found.fails <= found.works + 128
    assert found.tried <= 10


def test_no_more_lengths_than_allowed_are_tried() -> None:
    found = search(128, 131072, 70000, most=3)
    assert found.tried == 3
    assert "3 lengths were tried" in str(found)


def test_a_dead_engine_ends_it_with_the_length_that_killed_it() -> None:
    found = search(100, 200, 140, dead=True)
    assert (found.works, found.fails, found.ended) == (100, 150, "the engine died")


def test_when_the_shortest_length_fails_there_is_nothing_to_search() -> None:
    found = search(None, 128, 0)
    assert str(found) == "no length was answered, 128 do not (not narrowed further: the shortest length failed)"
