"""The child that fetches a calibration text: with network, and without any model.

Request: `dataset`, `revision`, `subset`, `split`, `column`, and the most `characters` to read. Result: `text`. Rows are
streamed, so that only the beginning of a large data set is fetched; the data set's own code is never run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from modelctl.worker import serve


def fetch(request: Any, _progress: Callable[..., None]) -> dict[str, str]:
    """The first rows' texts, apart by an empty line. Raises `ValueError` for a column without text."""
    import datasets

    rows = datasets.load_dataset(
        request["dataset"], request["subset"], split=request["split"], revision=request["revision"], streaming=True
    )
    parts: list[str] = []
    left = int(request["characters"])
    for row in rows:
        text = row.get(request["column"])
        if not isinstance(text, str):
            raise ValueError(f"no text under '{request['column']}'; a row has {', '.join(sorted(row))}")
        parts.append(text)
        left -= len(text)
        if left <= 0:
            break
    if not any(part.strip() for part in parts):
        raise ValueError("the data set holds no text")
    return {"text": "\n\n".join(parts)}


if __name__ == "__main__":
    serve(fetch)
