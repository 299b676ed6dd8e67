"""A check's context around an engine, with evidence kept in memory, and how fast that engine is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from modelctl.checks.base import Check, CheckContext, CheckLimits, Observation
from modelctl.checks.stress.limits import LoadLimits, LoadLimitsT
from modelctl.errors import ModelctlError
from modelctl.isolation import Sandbox
from modelctl.model.release import Serving
from modelctl.model.sources import Snapshot
from modelctl.model.tree import scan_tree
from modelctl.progress import SILENT, Progress, Task, Unit
from modelctl.scan.clamd import Clamd
from modelctl.serving.client import EngineClient
from modelctl.serving.endpoint import Endpoint
from modelctl.serving.prompts import prompt_maker

LimitsT = TypeVar("LimitsT", bound=CheckLimits)


class KeptEvidence:
    """Evidence by name."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def keep(self, name: str, content: bytes | Path) -> None:
        self.files[name] = content.read_bytes() if isinstance(content, Path) else content


class EngineOnly:
    """Resources that hold one engine, or the reason why there is none."""

    def __init__(self, engine: Endpoint | ModelctlError) -> None:
        self.sandbox = Sandbox("none")
        self._engine = engine

    def clamd(self) -> Clamd:
        raise AssertionError("no stress check needs a clamd")

    def engine(self) -> Endpoint:
        if isinstance(self._engine, ModelctlError):
            raise self._engine
        return self._engine


class OnceUnderWay:
    """A progress that does something, once, when its first task moves: the first second of a load is over then."""

    def __init__(self, action: Callable[[], object]) -> None:
        self._action: Callable[[], object] | None = action

    @contextmanager
    def task(self, label: str, *, total: float | None, unit: Unit) -> Iterator[Task]:
        yield self

    def note(self, message: str) -> None:
        pass

    def advance(self, amount: float = 1) -> None:
        action, self._action = self._action, None
        if action is not None:
            action()

    def describe(self, detail: str) -> None:
        pass


def seconds_of_a_round(engine: Endpoint, limits: LoadLimits) -> float:
    """How long this engine takes, on this machine as busy as it is, to answer one request of each stream at once."""

    async def ask() -> None:
        async with EngineClient(engine, silence_limit_s=600, time_limit_s=600) as client:
            prompts = await prompt_maker(client, seed=limits.seed + 1)
            made = [prompts.make(serial, limits.prompt_tokens).content for serial in range(limits.streams)]
            answers = [client.complete(text, answer_tokens=limits.answer_tokens, exact_answer=True) for text in made]
            assert [answer.row.failure for answer in await asyncio.gather(*answers)] == [None] * limits.streams

    started = time.monotonic()
    asyncio.run(ask())
    return time.monotonic() - started


def observe(
    check: Check[LimitsT],
    limits: LimitsT,
    engine: Endpoint | ModelctlError,
    *,
    model: Path,
    serving: Serving,
    base: Path | None = None,
    evidence: KeptEvidence | None = None,
    cache: Path | None = None,
    progress: Progress = SILENT,
) -> Observation:
    """Run a stress check on a model folder and an engine; `base` is what an adapter is served on, and `cache` is needed
    by a sweep."""
    tree = scan_tree(model)
    context = CheckContext(
        limits=limits,
        role="served",
        tree=tree,
        source=_snapshot(model),
        served=tree,
        quantization=None,
        baseline=None,
        base=_snapshot(base) if base is not None else None,
        serving=serving,
        resources=EngineOnly(engine),
        evidence=evidence or KeptEvidence(),
        progress=progress,
        workdir=model,
        cache=cache or model,
        root=model,
    )
    return check.run(context)


def observe_until(
    decided: Callable[[Observation], bool],
    check: Check[LoadLimitsT],
    limits: LoadLimitsT,
    engine: Endpoint,
    *,
    model: Path,
    serving: Serving,
    cache: Path | None = None,
) -> Observation:
    """What the check sees once its load lasts long enough: a machine that gets busy can spend all of one on a single
    answer, so it is put on again for four, then sixteen times as long."""
    for factor in (1, 4, 16):
        lasting = {"duration_s": factor * limits.duration_s, "sweep_seconds": factor * limits.sweep_seconds}
        longer = limits.model_copy(update=lasting)
        seen = observe(check, longer, engine, model=model, serving=serving, cache=cache)
        if decided(seen):
            break
    return seen


def _snapshot(folder: Path) -> Snapshot:
    return Snapshot(kind="folder", description=f"folder {folder}", tree=scan_tree(folder), upstream=None)


def rules(observation: Observation) -> list[str]:
    """The findings' rules."""
    return [finding.rule for finding in observation.findings]


def reasons(observation: Observation) -> str:
    """All that could not be decided, in one text."""
    return "\n".join(item.reason for item in observation.undecided)


def measured(observation: Observation, name: str) -> object:
    """The value of the first measurement of that name."""
    return next(item.value for item in observation.measurements if item.name == name)
