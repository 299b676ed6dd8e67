"""Which documents are asked, and in which portions: by the data, the limit and the seed alone.

So two models answer the same ones, and a run that was interrupted asks the rest in the same portions.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

PORTION = 128
"""Documents that are answered, and kept, together."""

Place = tuple[str, int]
"""A task's name and the number of one of its documents."""


def stratified(groups: Mapping[str, Sequence[int]], *, limit: int, seed: int) -> dict[str, list[int]]:
    """A random sample of `limit` items, each group in proportion to its size (largest remainders), sorted within a
    group."""
    total = sum(len(items) for items in groups.values())
    limit = min(limit, total)
    shares = {name: limit * len(items) / total for name, items in groups.items()}
    counts = {name: int(share) for name, share in shares.items()}
    by_remainder = sorted(groups, key=lambda name: (counts[name] - shares[name], name))
    for name in by_remainder[: limit - sum(counts.values())]:
        counts[name] += 1
    rng = random.Random(seed)  # noqa: S311 - a sample, no secret
    return {name: sorted(rng.sample(list(groups[name]), counts[name])) for name in sorted(groups)}


def sample(subjects: Mapping[str, Sequence[str]], *, limit: int, seed: int) -> list[Place]:
    """`limit` documents of all tasks, stratified by task and subject; `subjects` holds each task's, document by
    document."""
    places = [(name, number) for name in sorted(subjects) for number in range(len(subjects[name]))]
    groups: dict[str, list[int]] = {}
    for item, (name, number) in enumerate(places):
        groups.setdefault(f"{name}\0{subjects[name][number]}", []).append(item)
    chosen = stratified(groups, limit=limit, seed=seed)
    return sorted(places[item] for items in chosen.values() for item in items)


def portions(places: Sequence[Place]) -> list[dict[str, list[int]]]:
    """The sample cut into portions, each by task."""
    found = []
    for start in range(0, len(places), PORTION):
        portion: dict[str, list[int]] = {}
        for name, number in places[start : start + PORTION]:
            portion.setdefault(name, []).append(number)
        found.append(portion)
    return found
