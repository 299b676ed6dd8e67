"""Examines many folders in one child, which imports transformers once: what a test of a hundred folders can afford."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from modelctl.checks.limits import TokenizerLimits
from modelctl.model.tree import scan_tree
from modelctl.tokenization.report import Report

_PROGRAM = """
import json, sys
sys.modules["torch"] = None
import transformers.models.auto.tokenization_auto, transformers.tokenization_utils_tokenizers
from modelctl.tokenization.worker import Request, examine
for request in json.load(sys.stdin):
    print("REPORT", examine(Request.model_validate(request)).model_dump_json(), flush=True)
"""


def request_for(folder: Path, *, baseline: Path | None = None, **limits: object) -> dict[str, object]:
    """What the check asks of its child for a folder under a policy of `limits`."""
    chosen = TokenizerLimits.model_validate(limits)
    return {
        "root": str(folder),
        "files": [entry.path for entry in scan_tree(folder).files],
        "agreeing_roles": chosen.agreeing_roles,
        "max_lossy_texts": chosen.max_lossy_texts if chosen.round_trip else None,
        "max_differing_texts": chosen.max_differing_texts,
        "more_bytes": chosen.more_text_mib << 20,
        "baseline": str(baseline) if baseline is not None else None,
        "chat_template_required": chosen.chat_template_required,
        "template_time_limit_s": chosen.template_time_limit_s,
        "template_memory_limit_bytes": chosen.template_memory_limit_mib << 20,
        "load_time_limit_s": chosen.load_time_limit_s,
        "load_memory_limit_bytes": chosen.load_memory_limit_mib << 20,
    }


def examine_all(requests: Mapping[str, Mapping[str, object]]) -> dict[str, Report]:
    """The report of each request, by its name."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        input=json.dumps(list(requests.values())), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line.removeprefix("REPORT ") for line in done.stdout.splitlines() if line.startswith("REPORT ")]
    return dict(zip(requests, map(Report.model_validate_json, lines), strict=True))


def rules_of(report: Report) -> Sequence[str]:
    """The rules of the findings, sorted, each once."""
    return sorted({problem.rule for problem in report.problems})
