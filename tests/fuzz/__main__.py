"""Run as many cases as there is time for: `python -m tests.fuzz --cases 100000 --seed 7 [--target json]`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.fuzz.runner import DEFAULT_SEED, run_cases
from tests.fuzz.targets import TARGETS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="cases of each target (default: 10000)")
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED)
    parser.add_argument("--first", type=int, default=0, help="number of the first case (default: 0)")
    parser.add_argument("--target", choices=sorted(TARGETS), action="append", help="only this one; may be repeated")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write what failed here")
    options = parser.parse_args()
    count = 0
    for target in options.target or TARGETS:
        sys.stderr.write(f"{target}: {options.cases} cases from {options.first}, seed {options.seed}\n")
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            for failure in run_cases(
                target, TARGETS[target].case, Path(folder), seed=options.seed, first=options.first, cases=options.cases
            ):
                count += 1
                sys.stdout.write(f"{target} case {failure.number}, seed {failure.seed}\n{failure.message}\n")
                if options.keep is not None and failure.content is not None:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    (options.keep / f"{target}-{failure.seed}-{failure.number}").write_bytes(failure.content)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
