"""`make bench`: modelctl beside well-known tools, in one run, as ratios that hold on any machine.

docs/performance.md explains every figure. Exit code 1 when one misses what was promised of it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import audit
import deep_scan
import detection
import files
import listing
import load_agreement
import load_client
import load_tools
import numbers_pass
import peers
import publishing
import pulling
import quantization
import reports
import rollout
import scanners
import startup
import tokenizer
from comparison import Row, table

ROOT = Path(__file__).resolve().parent.parent
Part = Callable[[], list[Row]]
GROUPS = {"load": ("load-client", "load-peers", "load-lag", "load-agreement", "load-agreement-peers")}
"""Names that stand for several parts; each part takes some minutes at most."""


def choose(found: Sequence[str], *, only: Sequence[str] | None, without: Sequence[str]) -> list[str]:
    """The parts that were asked for, in the order of `only`; a group's name stands for its parts."""
    unknown = {*(only or []), *without} - {*found, *GROUPS}
    if unknown:
        raise SystemExit(f"bench: no part {', '.join(sorted(unknown))}; there are {', '.join([*found, *GROUPS])}")
    left_out = {part for name in without for part in GROUPS.get(name, (name,))}
    asked = [part for name in only or found for part in GROUPS.get(name, (name,))]
    return [part for part in dict.fromkeys(asked) if part not in left_out]


def parts(options: argparse.Namespace, folder: Path) -> Mapping[str, Part]:
    """What is measured, by the name that `--only` and `--without` take."""
    rounds, size_mb = options.rounds, options.size_mb
    return {
        "start": lambda: startup.rows(rounds=rounds),
        "file": lambda: files.one_file(folder, rounds=rounds, size_mb=size_mb),
        "shards": lambda: files.shards(folder, rounds=rounds, size_mb=size_mb),
        "tree": lambda: files.small_files(folder, rounds=rounds),
        "numbers": lambda: numbers_pass.rows(folder, rounds=rounds, size_mb=size_mb),
        "peers": lambda: peers.rows(folder, rounds=max(1, rounds // 2), size_mb=options.folder_mb),
        "tokenizer": lambda: tokenizer.rows(folder, rounds=max(1, rounds // 2)),
        "quantization": lambda: quantization.rows(folder),
        "detection": lambda: detection.rows(folder),
        "load-client": lambda: load_client.beside_vllm(folder),
        "load-peers": lambda: load_client.beside_peers(folder),
        "load-lag": load_client.lag,
        "load-agreement": lambda: load_agreement.beside_vllm(folder),
        "load-agreement-peers": lambda: load_agreement.beside_aiperf(folder),
        "listing": lambda: listing.rows(folder, rounds=rounds),
        "reports": lambda: reports.rows(folder, rounds=rounds),
        "audit": lambda: audit.rows(folder, rounds=max(1, rounds // 2)),
        "rollout": lambda: rollout.rows(folder, rounds=max(1, rounds // 2)),
        "publish": lambda: publishing.rows(folder, rounds=max(1, rounds // 2), size_mb=2 * size_mb),
        "pull": lambda: pulling.rows(folder, rounds=rounds, size_mb=2 * size_mb),
        "deep-scan": lambda: deep_scan.rows(folder, rounds=max(1, rounds // 2), size_mb=options.scan_mb),
    }


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="modelctl beside well-known tools, in one run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures as JSON")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each tool that count (default: 5)")
    parser.add_argument("--size-mb", type=int, default=1024, help="MiB of the hashed files (default: 1024)")
    parser.add_argument("--folder-mb", type=int, default=512, help="MiB of the folder for the peers (default: 512)")
    parser.add_argument("--scan-mb", type=int, default=2048, help="MiB of the scanned torch file (default: 2048)")
    parser.add_argument("--dir", type=Path, default=ROOT / ".cache", help="where temporary files go (default: .cache)")
    names = parser.add_mutually_exclusive_group()
    names.add_argument("--only", nargs="+", default=None, metavar="PART", help="measure only these parts")
    names.add_argument("--without", nargs="+", default=[], metavar="PART", help="leave these parts out")
    return parser.parse_args()


def main() -> int:
    """Measure, print the table, and say what missed."""
    options = parse()
    options.dir.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=options.dir))
    rows: list[Row] = []
    try:
        found = parts(options, folder)
        chosen = choose(list(found), only=options.only, without=options.without)
        if "peers" in chosen and not peers.ready():
            peers.install()
        if "quantization" in chosen and not quantization.ready():
            raise SystemExit("bench: quantization needs make setup; --without quantization leaves it out")
        if {"publish", "pull"} & set(chosen) and not publishing.ready():
            publishing.install()
        if any(name in GROUPS["load"] for name in chosen) and not load_tools.ready():
            raise SystemExit("bench: load needs the CPU engine of make setup; --without load leaves it out")
        if {"detection", "deep-scan"} & set(chosen) and not scanners.ready():
            scanners.install()
        for name in chosen:
            begin = time.monotonic()
            rows += found[name]()
            print(f"{name}: measured in {time.monotonic() - begin:.0f} s", file=sys.stderr)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(table(rows))
    if options.json:
        machine = {"cores": len(os.sched_getaffinity(0)), "machine": platform.machine(), "system": platform.system()}
        document = {"machine": machine, "rows": [asdict(row) | {"ratio": row.ratio} for row in rows]}
        options.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 1 if any(row.missed for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
