"""Puts a load on from several processes of this machine, when one core cannot keep up with the engine's answers.

Each has a client and an event loop of its own; streams, arrivals and prompts are dealt out in turn, so that no two
share any, and all count time from one origin. What they saw comes back whole when they end.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import signal
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

from modelctl.errors import CannotDecideError
from modelctl.serving.client import EngineClient
from modelctl.serving.driving import drive
from modelctl.serving.endpoint import Endpoint
from modelctl.serving.plan import LoadPlan
from modelctl.serving.prompts import PromptMaker
from modelctl.serving.shares import Counts, Driven, Share

_START_LIMIT_S = 120.0
_LEAD_S = 0.1
"""From the word to start until the load does, for all processes to have read it."""
_TELL_S = 0.5
_READY = "ready"


@dataclass(frozen=True, kw_only=True)
class _Job:
    endpoint: Endpoint
    silence_limit_s: float
    time_limit_s: float
    origin_s: float
    prompts: PromptMaker
    plan: LoadPlan
    share: Share


class LoadProcesses:
    """The processes of one load, for the time of an `async with` block; they are ended on every way out of it."""

    def __init__(self, client: EngineClient, prompts: PromptMaker, plan: LoadPlan, count: int) -> None:
        self._client = client
        self._jobs = [
            _Job(
                endpoint=client.endpoint, silence_limit_s=client.silence_limit_s, time_limit_s=client.time_limit_s,
                origin_s=client.origin_s, prompts=prompts, plan=plan, share=Share(index=index, of=count),
            )
            for index in range(count)
        ]  # fmt: skip
        self._processes: list[SpawnProcess] = []
        self._ends: list[Connection] = []
        self.counts = [Counts() for _ in range(count)]
        """By process, twice a second."""

    async def __aenter__(self) -> LoadProcesses:
        context = multiprocessing.get_context("spawn")
        try:
            for job in self._jobs:
                ours, theirs = context.Pipe()
                process = context.Process(target=_work, args=(job, theirs), daemon=True)
                process.start()
                theirs.close()
                self._ends.append(ours)
                self._processes.append(process)
            ready = await asyncio.wait_for(asyncio.gather(*map(_received, self._ends)), _START_LIMIT_S)
        except TimeoutError as error:
            self._end()
            raise CannotDecideError(
                f"the load generator's processes did not start in {_START_LIMIT_S:g} s", remedy="try a quieter machine"
            ) from error
        except BaseException:
            self._end()
            raise
        if any(word != _READY for word in ready):
            self._end()
            raise CannotDecideError("a process of the load generator did not start")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._end()

    def start(self) -> float:
        """Let them begin; when they do, on the client's clock."""
        started_s = self._client.now() + _LEAD_S
        for end in self._ends:
            end.send(started_s)
        return started_s

    async def result(self) -> list[Driven]:
        """What each process saw, when all have ended. Raises `CannotDecideError` when one died."""
        return await asyncio.gather(*map(self._follow, range(len(self._ends))))

    async def _follow(self, index: int) -> Driven:
        while True:
            told = await _received(self._ends[index])
            if isinstance(told, Driven):
                return told
            if not isinstance(told, Counts):
                raise CannotDecideError(
                    "a process of the load generator ended by itself",
                    remedy="see whether the machine ran out of memory",
                )
            self.counts[index] = told
            if told.gave_up is not None:
                for end in self._ends:
                    with contextlib.suppress(OSError):
                        end.send("stop")

    def _end(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()
        for end in self._ends:
            end.close()


async def _received(end: Connection) -> object:
    """The next message; None when the other side is gone."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(end.fileno(), readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(end.fileno())
    try:
        message: object = end.recv()
    except (EOFError, OSError):
        return None
    return message


def _work(job: _Job, end: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its processes itself
    asyncio.run(_drive(job, end))


async def _drive(job: _Job, end: Connection) -> None:
    async with EngineClient(
        job.endpoint, silence_limit_s=job.silence_limit_s, time_limit_s=job.time_limit_s, origin_s=job.origin_s
    ) as client:
        end.send(_READY)
        started_s = await _received(end)
        if not isinstance(started_s, float):
            return
        driven = Driven()

        def stop() -> None:
            asyncio.get_running_loop().remove_reader(end.fileno())
            driven.stopped = True

        asyncio.get_running_loop().add_reader(end.fileno(), stop)
        teller = asyncio.create_task(_tell(end, driven))
        try:
            await drive(client, job.prompts, job.plan, job.share, driven, started_s=started_s)
        finally:
            teller.cancel()
    end.send(driven)


async def _tell(end: Connection, driven: Driven) -> None:
    while True:
        await asyncio.sleep(_TELL_S)
        end.send(driven.counts)
