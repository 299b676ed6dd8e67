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
    from modelctl.cli.report_files import ReportFiles

PIPE_COLUMNS = 120


def console(*, stderr: bool = False) -> Console:
    """A console that honours NO_COLOR, TERM=dumb, pipes and narrow terminals; a pipe gets 120 columns or COLUMNS."""
    from rich.console import Console

    from modelctl.cli.terminal import is_plain

    stream = sys.stderr if stderr else sys.stdout
    columns = os.environ.get("COLUMNS", "")
    piped = int(columns) if columns.isdecimal() and int(columns) else PIPE_COLUMNS
    return Console(
        stderr=stderr, width=None if stream.isatty() else piped, color_system=None if is_plain() else "auto",
        highlight=False, soft_wrap=False, emoji=False, markup=False,
    )  # fmt: skip


def write_json(target: str, text: str) -> None:
    """Write `text` to stdout for `-`, else to a file, whole or not at all."""
    if target == "-":
        sys.stdout.write(text)
        return
    write_whole(Path(target), text)


def deliver(admission: Admission, files: ReportFiles, *, beside: str) -> Console:
    """Keep the report with its evidence (`beside` says what that is), write the files that are asked for, and print it;
    returns the console that took it."""
    from modelctl.admission.terminal import print_report
    from modelctl.registry.listed import keep_list

    kept = admission.evidence_dir / "report.json"
    write_whole(kept, admission.report.to_json())
    keep_list(kept, admission.served)
    files.write(admission.report, (admission.evidence_dir,))
    out = console(stderr=files.on_stdout)
    print_report(admission.report, out)
    out.print(f"\nreport and {beside}: {admission.evidence_dir}", style="dim", soft_wrap=True)
    return out


def counted(number: int, word: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def size_text(size_bytes: int) -> str:
    """Bytes for people, in powers of ten: `7 B`, `1.5 GB`."""
    amount = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"
