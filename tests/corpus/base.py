"""What one input of the corpus is, and how it is written: bytes in folders. Nothing is ever loaded or run."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from tests.support.models import tiny_llama

Verdict = Literal["refuse", "admit"]
BYTES = ("malware", "code")
"""The checks that judge files which no engine serves: integrity refuses their formats whatever is in them."""
GATE = ("integrity", *BYTES)
"""The checks that decide whether a model may be loaded."""
WHOLE = (*GATE, "tokenizer")
"""All checks that need no engine: for inputs about the tokenizer and its templates."""


@dataclass(frozen=True, kw_only=True)
class Input:
    """One small model repository, hostile or not."""

    id: str
    group: str
    what: str
    """One sentence."""
    report: str
    """The public report, CVE or tool issue behind it, or the document of the format."""
    files: Mapping[str, bytes]
    """Its own files: what a scanner has to look at."""
    rules: tuple[str, ...] = ()
    """Beginnings of the rules of which one must be found (`malware.pickle-`); none: it must be admitted."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Symbolic links and what they lead to."""
    host: bool = True
    """Whether it lies within a whole, valid model; its own files replace those of the same name."""
    without: tuple[str, ...] = ()
    """Files of the host that it lacks."""
    checks: tuple[str, ...] = GATE

    @property
    def verdict(self) -> Verdict:
        """What is right."""
        return "refuse" if self.rules else "admit"

    def write(self, folder: Path) -> Path:
        """Write the whole repository into a new folder, and return that."""
        whole = {name: data for name, data in host().items() if name not in self.without} if self.host else {}
        for name, data in (whole | dict(self.files)).items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        for name, target in self.links.items():
            path = folder / name
            path.unlink(missing_ok=True)
            path.symlink_to(target)
        return folder


@cache
def host() -> Mapping[str, bytes]:
    """The files of a valid model of a hundred kilobytes: config, safetensors, tokenizer, chat template."""
    with tempfile.TemporaryDirectory() as folder:
        tiny_llama(Path(folder))
        return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


def edited(name: str, **changes: object) -> bytes:
    """A JSON file of the host with some keys set; None takes a key out."""
    document = json.loads(host()[name]) | changes
    return as_json({key: value for key, value in document.items() if value is not None})


def as_json(value: object) -> bytes:
    """JSON as transformers writes it."""
    return (json.dumps(value, indent=2) + "\n").encode()


def write_all(inputs: Iterable[Input], folder: Path) -> Path:
    """Write every input as a folder under its id, and `corpus.json`, which says what each is. Return that file."""
    rows = []
    for item in inputs:
        item.write(folder / item.id)
        rows.append(
            {
                "id": item.id,
                "group": item.group,
                "what": item.what,
                "report": item.report,
                "verdict": item.verdict,
                "rules": item.rules,
                "checks": item.checks,
                "own": sorted({*item.files, *item.links}),
            }
        )
    index = folder / "corpus.json"
    index.write_bytes(as_json(rows))
    return index
