"""`python -m tests.corpus FOLDER`: write the corpus for a scanner to read."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.corpus import corpus
from tests.corpus.base import write_all

if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m tests.corpus FOLDER")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True)
    write_all(corpus(), folder)
