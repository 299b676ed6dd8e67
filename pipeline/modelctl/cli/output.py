"""Where output goes: data to stdout, talk to stderr, colours only where a person looks.

`console()` writes for people; `write_json` writes for programs, to stdout for `-`, else to a file that appears whole
or not at all; `deliver` hands over the report of an admission to both.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from modelctl.files import write_whole

if TYPE_CHECKING:
    from rich.console import Console

    from modelctl.admission.admit import Admission


def console(*, stderr: bool = False) -> Console:
    """A console that honours NO_COLOR, pipes and narrow terminals; a pipe gets 120 columns."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else int(os.environ.get("COLUMNS", "120"))
    return Console(stderr=stderr, width=width, highlight=False, soft_wrap=False, emoji=False, markup=False)


def write_json(target: str, text: str) -> None:
    """Write `text` to stdout for `-`, else to a file, whole or not at all."""
    if target == "-":
        sys.stdout.write(text)
        return
    write_whole(Path(target), text)


def deliver(admission: Admission, json_target: str | None, *, beside: str) -> Console:
    """Keep the report with its evidence (`beside` says what that is), write it as JSON where it is asked for, and print
    it; returns the console that took it."""
    from modelctl.admission.terminal import print_report

    text = admission.report.to_json()
    write_whole(admission.evidence_dir / "report.json", text)
    if json_target:
        write_json(json_target, text)
    out = console(stderr=json_target == "-")
    print_report(admission.report, out)
    out.print(f"\nreport and {beside}: {admission.evidence_dir}", style="dim", soft_wrap=True)
    return out
