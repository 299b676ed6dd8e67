"""The corpus judged by modelctl: `python -m tests.corpus.judge CORPUS_JSON` prints a JSON line for each input.

Each repository is judged by the checks that it names. Those that read bytes (malware, code) are run on all of a group
at once, as folders of one tree, since clamd's proofs and an isolated child cost the same for one as for many;
integrity and tokenizer look at a repository as a whole, and run on each by itself.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from modelctl.admission.admit import Request, admit
from modelctl.admission.report import Report
from modelctl.progress import SILENT
from modelctl.services.clamd import private_clamd
from modelctl.services.process import running
from modelctl.settings import load_workspace
from tests.corpus.base import BYTES

POLICY = Path(__file__).with_name("policy.yaml")


@dataclass(kw_only=True)
class Judged:
    """What was found of one input."""

    rules: set[str] = field(default_factory=set)
    undecided: list[str] = field(default_factory=list)


def judge(workspace: Path, repo: Path, checks: Sequence[str], clamd: str) -> Report:
    """Admit one folder by some checks, under the corpus's policy."""
    settings = load_workspace(workspace, environ={}, options={"clamd": clamd})
    request = Request(repo=str(repo), workspace=settings, policy=str(POLICY), checks=tuple(checks))
    return admit(request, SILENT).report


def judge_group(
    folder: Path, checks_of: Mapping[str, Sequence[str]], *, workspace: Path, clamd: str
) -> dict[str, Judged]:
    """Judge the repositories of a folder, which holds nothing else; `checks_of` maps their names to their checks."""
    judged: dict[str, Judged] = defaultdict(Judged)
    report = judge(workspace, folder, BYTES, clamd)
    for path, rule in _found(report):
        judged[path.partition("/")[0]].rules.add(rule)
    for name, checks in checks_of.items():
        judged[name].undecided += _undecided(report)
        alone = [check for check in checks if check not in BYTES]
        if alone:
            own = judge(workspace, folder / name, alone, clamd)
            judged[name].rules |= {rule for _, rule in _found(own)}
            judged[name].undecided += _undecided(own)
    return dict(judged)


def _found(report: Report) -> Iterable[tuple[str, str]]:
    return ((item.path or "", item.rule) for check in report.checks for item in check.findings)


def _undecided(report: Report) -> list[str]:
    """What is left open; that a check was not run since an earlier one refused the model is no such thing."""
    if any(check.findings for check in report.checks):
        return []
    return [f"{check.id}: {item.reason}" for check in report.checks for item in check.undecided]


def main(index: Path) -> None:
    """Judge what `corpus.json` lists, group by group."""
    rows = json.loads(index.read_text(encoding="utf-8"))
    groups: dict[str, dict[str, Sequence[str]]] = defaultdict(dict)
    for row in rows:
        groups[row["group"]][row["id"]] = row["checks"]
    with tempfile.TemporaryDirectory(dir=index.parent.parent) as work:
        workspace = Path(work)
        with running(private_clamd(workspace / "clamd")) as clamd:
            for number, checks_of in enumerate(groups.values()):
                folder = workspace / f"group{number}"
                folder.mkdir()
                for name in checks_of:
                    shutil.copytree(index.parent / name, folder / name, symlinks=True)
                judged = judge_group(folder, checks_of, workspace=workspace, clamd=clamd.address)
                for name, said in judged.items():
                    line = {"id": name, "rules": sorted(said.rules), "undecided": said.undecided}
                    sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
