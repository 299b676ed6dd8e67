"""What an audit tells as CSV: stable columns, one line each, harmless to a spreadsheet.

A cell that a spreadsheet would take for a formula gets an apostrophe before it, since names, messages and reasons are
written by anybody (CWE-1236). Lists are joined by "; ".
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

EVENT_COLUMNS = (
    "when", "kind", "release", "environment", "who", "commit", "digest", "policy", "policy_digest", "evidence",
    "checks", "machine", "reviewers", "signer", "tag", "waiver", "reason", "detail",
)  # fmt: skip
SERVING_COLUMNS = (
    "environment", "release", "role", "digest", "since", "by", "commit", "reason", "published", "tag", "signer",
    "policy", "policy_digest", "evidence", "verdict", "checks", "approved_by", "reviewers", "waivers",
)  # fmt: skip
ORIGIN_COLUMNS = (
    "release", "state", "sources", "bases", "policy", "policy_digest", "waivers", "commit", "when", "who", "served_in",
    "problem",
)  # fmt: skip
VIOLATION_COLUMNS = ("rule", "release", "environment", "commit", "path", "message", "remedy")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def as_csv(columns: tuple[str, ...], rows: Iterable[Mapping[str, Any]]) -> str:
    """A header and a line for each row; more columns may be added at the end, none is ever moved."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([harmless(row[name]) for name in columns])
    return stream.getvalue()


def harmless(value: object) -> str:
    """A cell's text that no spreadsheet evaluates."""
    if isinstance(value, tuple | list):
        value = "; ".join(map(str, value))
    text = "" if value is None else str(value)
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text
