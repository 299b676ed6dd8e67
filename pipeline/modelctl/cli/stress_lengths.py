"""`modelctl stress --lengths`: one request after the other, each longer, and what the engine's KV cache does meanwhile.

The same walk as the check `long-context` has, without its verdict. What was seen is kept beside the sweep, so that a
second run with the same question goes on behind it. With a model's config.json the KV use is computed too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from modelctl.checks.stress.length_verdicts import describe_length
from modelctl.checks.stress.lengths import LengthSeen, LengthWalk
from modelctl.checks.stress.limits import LengthLimits
from modelctl.checks.stress.session import Notes
from modelctl.errors import InputError
from modelctl.files import write_whole
from modelctl.model.config import ModelConfig
from modelctl.model.release import Serving
from modelctl.progress import Progress
from modelctl.serving.client import EngineClient
from modelctl.serving.endpoint import Endpoint
from modelctl.serving.memory import MemoryWatch
from modelctl.serving.prompts import prompt_maker
from modelctl.sizing.kv import KvLayout, batches_in_flight, kv_layout

if TYPE_CHECKING:
    from rich.console import Console

LENGTHS_NAME = "lengths.json"
AUTO = "auto"
HEAD = ("tokens", "TTFT", "TPOT", "KV blocks", "computed")
_PROMPTS = 2
_LIMITS = LengthLimits()


@dataclass(frozen=True, kw_only=True)
class LengthRow:
    """What one length showed: prompt and answer in tokens, times in seconds (medians); None: the engine did not say."""

    length: int
    ttft_s: float | None
    tpot_s: float | None
    kv_blocks: float | None
    block_size: int | None
    kv_blocks_computed: int | None = None
    """What sizing says; None: no config.json was named."""


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """All lengths that were answered, and what went wrong beyond."""

    rows: tuple[LengthRow, ...]
    troubles: tuple[str, ...]


def parse_lengths(text: str, endpoint: Endpoint, *, answer_tokens: int) -> tuple[int, ...]:
    """The lengths that `auto` or `512,2048` means, in rising order. Raises `InputError`."""
    shortest = max(_LIMITS.min_length, 2 * answer_tokens)
    if text == AUTO:
        longest = endpoint.max_model_len
        if longest is None or longest < shortest:
            raise InputError(
                f"--lengths auto goes up to the engine's maximum, which is {longest or 'not said'}; the shortest tried "
                f"is {shortest}",
                remedy="name the lengths: --lengths 512,2048",
            )
        return tuple(sorted({max(shortest, int(longest * share)) for share in _LIMITS.fractions} | {longest}))
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) >= shortest for word in words):
        raise InputError(
            f"--lengths '{text}': wanted are numbers of tokens from {shortest} on (prompt and answer), or auto",
            remedy="write for example --lengths 512,2048,8192",
        )
    return tuple(sorted({int(word) for word in words}))


def walk_lengths(
    endpoint: Endpoint, lengths: Sequence[int], folder: Path, *, answer_tokens: int, seed: int, progress: Progress
) -> Lengths:
    """Try each length, or read what was kept of the same question. Raises `InputError` when another was kept."""
    engine = {"url": endpoint.base_url, "model": endpoint.model, "version": endpoint.version}
    asked = {"engine": engine, "lengths": list(lengths), "answer_tokens": answer_tokens, "seed": seed}
    kept = _read(folder / LENGTHS_NAME, asked)
    if kept is not None:
        progress.note(f"the lengths are in {folder} already")
        return kept
    found = asyncio.run(_walk(endpoint, lengths, answer_tokens, seed, progress))
    body = {"asked": asked, "rows": [asdict(row) for row in found.rows], "troubles": found.troubles}
    write_whole(folder / LENGTHS_NAME, json.dumps(body, indent=2) + "\n")
    return found


def with_computed(found: Lengths, config: ModelConfig, endpoint: Endpoint) -> Lengths:
    """The same with the KV blocks that sizing says. Raises `CannotDecideError` for a cache that is not computed."""
    size = next((row.block_size for row in found.rows if row.block_size is not None), None)
    if size is None:
        return found
    layout = layout_for(config, endpoint, size)
    rows = [LengthRow(**{**asdict(row), "kv_blocks_computed": layout.need_blocks(row.length)}) for row in found.rows]
    return Lengths(rows=tuple(rows), troubles=found.troubles)


def layout_for(config: ModelConfig, endpoint: Endpoint, block_size: int) -> KvLayout:
    """The KV layout by config.json, with the batch that a release has by default where the engine does not say."""
    return kv_layout(
        config,
        block_size=block_size,
        max_num_batched_tokens=Serving().max_num_batched_tokens,
        tensor_parallel_size=1,
        cache_dtype="auto",
        batches_in_flight=batches_in_flight(endpoint.version),
    )


def cells(found: Lengths) -> list[list[str]]:
    """The table's rows, under `HEAD`."""
    return [
        [
            f"{row.length:,}", _seconds(row.ttft_s), _seconds(row.tpot_s),
            "-" if row.kv_blocks is None else f"{row.kv_blocks:.0f}",
            "-" if row.kv_blocks_computed is None else f"{row.kv_blocks_computed}",
        ]
        for row in found.rows
    ]  # fmt: skip


def print_lengths(found: Lengths, out: Console) -> None:
    """The lengths for a person."""
    from rich.table import Table

    out.print("\none request at a time, longer and longer", style="bold")
    table = Table(*HEAD, box=None, pad_edge=False)
    for row in cells(found):
        table.add_row(*row)
    out.print(table)
    for trouble in found.troubles:
        out.print(trouble, style="yellow")


async def _walk(
    endpoint: Endpoint, lengths: Sequence[int], answer_tokens: int, seed: int, progress: Progress
) -> Lengths:
    limit_s = _LIMITS.request_time_limit_s
    notes = Notes(check="lengths")
    async with EngineClient(endpoint, silence_limit_s=limit_s, time_limit_s=limit_s) as client:
        walk = LengthWalk(
            client=client,
            prompts=await prompt_maker(client, seed=seed),
            notes=notes,
            maximum=endpoint.max_model_len or lengths[-1],
            answer_tokens=answer_tokens,
            reference_tokens=_LIMITS.min_length,
            per_length=_PROMPTS,
            scrape_s=_LIMITS.scrape_s,
            cliff_step=None,
            max_cliff_lengths=_LIMITS.max_cliff_lengths,
            api="completions",
        )
        with progress.task("lengths", total=len(lengths) * _PROMPTS, unit="requests") as task:
            await walk.run(
                lengths, task, MemoryWatch(None), on_length=lambda seen: progress.note(describe_length(seen))
            )
    troubles = [*(finding.message for finding in notes.findings), *notes.warnings]
    if any(seen.crowded for seen in walk.seen):
        troubles.append("other requests ran on the engine meanwhile: KV use is theirs too")
    return Lengths(rows=tuple(_row(seen) for seen in walk.seen if seen.ttfts_s), troubles=tuple(troubles))


def _row(seen: LengthSeen) -> LengthRow:
    return LengthRow(
        length=seen.length,
        ttft_s=median(seen.ttfts_s),
        tpot_s=median(seen.tpots_s) if seen.tpots_s else None,
        kv_blocks=seen.peak_blocks,
        block_size=seen.block_size,
    )


def _read(path: Path, asked: dict[str, object]) -> Lengths | None:
    if not path.exists():
        return None
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        found = Lengths(rows=tuple(LengthRow(**row) for row in body["rows"]), troubles=tuple(body["troubles"]))
        same = body["asked"] == asked
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not what this program wrote: {error}", remedy="remove the file") from error
    if not same:
        raise InputError(f"{path} is of other lengths", remedy="name another folder with --out, or remove the file")
    return found


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f} s" if value >= 10 else f"{value * 1000:.1f} ms"
