"""What a check is given, for tests of one check at a time."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from modelctl.checks.base import CheckContext, CheckLimits
from modelctl.errors import CannotDecideError
from modelctl.isolation import Sandbox
from modelctl.model.release import Serving
from modelctl.model.sources import Snapshot
from modelctl.model.tree import scan_tree
from modelctl.progress import SILENT
from modelctl.scan.clamd import Clamd
from modelctl.serving.endpoint import Endpoint

LimitsT = TypeVar("LimitsT", bound=CheckLimits)


class TestResources:
    """Hands out what the test brought, and nothing else."""

    __test__ = False

    def __init__(self, clamd: Clamd | None) -> None:
        self._clamd = clamd
        self.sandbox = Sandbox()

    def clamd(self) -> Clamd:
        if self._clamd is None:
            raise CannotDecideError("no clamd in this test")
        return self._clamd

    def engine(self) -> Endpoint:
        raise CannotDecideError("no engine in this test")


class KeptEvidence:
    """Evidence in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def keep(self, name: str, content: bytes | Path) -> None:
        self.kept[name] = content if isinstance(content, bytes) else content.read_bytes()


def tree_context(folder: Path, limits: LimitsT, *, scratch: Path, clamd: Clamd | None = None) -> CheckContext[LimitsT]:
    """The context of a check of scope "tree" on a folder; `scratch` is a folder of the test's own."""
    tree = scan_tree(folder)
    (scratch / "work").mkdir(parents=True, exist_ok=True)
    (scratch / "cache").mkdir(exist_ok=True)
    return CheckContext(
        limits=limits,
        role="source",
        tree=tree,
        source=Snapshot(kind="folder", description=f"folder {folder}", tree=tree, upstream=None),
        served=tree,
        quantization=None,
        made=None,
        baseline=None,
        serving=Serving(),
        resources=TestResources(clamd),
        evidence=KeptEvidence(),
        progress=SILENT,
        workdir=scratch / "work",
        cache=scratch / "cache",
        root=scratch,
    )
