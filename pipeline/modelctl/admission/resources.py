"""The services that checks need: reached or started when first asked for, ended together.

A service that can't be had is remembered: the second check that asks is told the same at once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

from modelctl.errors import ModelctlError
from modelctl.isolation import Sandbox
from modelctl.model.release import Serving
from modelctl.model.tree import Tree
from modelctl.progress import Progress
from modelctl.scan.clamd import Clamd
from modelctl.services.clamd import private_clamd
from modelctl.services.process import find, running
from modelctl.serving.adapters import served_adapter
from modelctl.serving.endpoint import Endpoint
from modelctl.serving.engine import attach, start_engine
from modelctl.serving.models import choose_adapter
from modelctl.settings import Settings

ValueT = TypeVar("ValueT")


class RunResources:
    """Resources of one admission; use as a context manager."""

    def __init__(self, *, settings: Settings, state: Path, evidence: Path, progress: Progress) -> None:
        self.sandbox = Sandbox()
        self._settings = settings
        self._state = state
        self._evidence = evidence
        self._progress = progress
        self._stack = ExitStack()
        self._made: dict[str, object] = {}
        self._served: tuple[Tree, Serving, Tree | None] | None = None

    def __enter__(self) -> RunResources:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stack.close()

    def serve(self, tree: Tree, serving: Serving, base: Tree | None = None) -> None:
        """Say what `engine` is to serve; an adapter on its `base`."""
        self._served = (tree, serving, base)

    def clamd(self) -> Clamd:
        """The clamd of the settings, a running embedded one, else a private one for this run."""
        return self._once("clamd", self._clamd)

    def engine(self) -> Endpoint:
        """The endpoint of the settings, else an engine of our own that serves the served tree."""
        return self._once("engine", self._engine)

    def _clamd(self) -> Clamd:
        if self._settings.clamd is not None:
            return Clamd(self._settings.clamd)
        folder = self._state / "services" / "clamd"
        found = find(folder)
        if found is None:
            self._progress.note("starting a private clamd (set clamd, or run modelctl services up, to share one)")
            found = self._stack.enter_context(running(private_clamd(folder)))
        return Clamd(found.address)

    def _engine(self) -> Endpoint:
        if self._served is None:
            raise AssertionError("serve() comes first")
        tree, serving, base = self._served
        if self._settings.engine.endpoint is not None:
            running_engine = attach(self._settings.engine.endpoint, api_key=self._settings.engine.api_key)
            return running_engine if base is None else choose_adapter(running_engine)
        return self._stack.enter_context(
            start_engine(
                base or tree,
                serving,
                self._settings.engine,
                sandbox=self.sandbox,
                folder=self._evidence / "engine",
                progress=self._progress,
                adapter=None if base is None else served_adapter(tree, base),
            )
        )

    def _once(self, name: str, make: Callable[[], ValueT]) -> ValueT:
        if name not in self._made:
            try:
                self._made[name] = make()
            except ModelctlError as error:
                self._made[name] = error
        made = self._made[name]
        if isinstance(made, ModelctlError):
            raise made
        return made  # type: ignore[return-value] # stored under its own name only
