"""How `modelctl size` prints a plan: a table over GPUs, the arithmetic of one, and the same as JSON."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from modelctl.cli.size_money import Money
from modelctl.sizing.budget import GIB
from modelctl.sizing.cost import decode_bound
from modelctl.sizing.plan import Plan
from modelctl.sizing.slices import smallest_slice
from modelctl.sizing.ways_out import ways_out

if TYPE_CHECKING:
    from rich.console import Console


def overview(plans: Sequence[Plan], money: Money, out: Console) -> None:
    """One line a GPU."""
    from rich.table import Table

    length, streams = plans[0].length, plans[0].demand.streams
    out.print(f"{plans[0].facts.name}: {_streams(streams)} of {length:,} tokens\n", style="bold")
    table = Table("GPU", "count", "weights", "KV pool", "longest", "streams", "fits", box=None, pad_edge=False)
    parts = [smallest_slice(plan) for plan in plans]
    if any(parts):
        table.add_column("slice")
    priced = any(money.per_million(plan) for plan in plans)
    if priced:
        table.add_column("per million tokens")
    for plan, part in zip(plans, parts, strict=True):
        cells = [
            plan.gpu.name, str(plan.ranks), _gib(plan.budget.weights), _gib(max(0, plan.budget.kv_pool)),
            f"{plan.longest:,}", f"{plan.streams:,}", "yes" if plan.fits else "no",
        ]  # fmt: skip
        if any(parts):
            cells.append(part.gpu.name.partition(":")[2] if part is not None else "-")
        table.add_row(*cells, *([_cost(plan, money)] if priced else []), style=None if plan.fits else "dim")
    out.print(table)
    sliced = "; slice: the smallest that is enough" if any(parts) else ""
    out.print(
        f"bytes are those of one GPU; longest: one stream alone; streams: of that length, at once{sliced}\n",
        style="dim",
    )


def explain(plan: Plan, money: Money, out: Console) -> None:
    """The arithmetic of one plan, its flags, and the ways out when it does not fit."""
    kind = f"{plan.ranks} x {plan.gpu.name}" if plan.ranks > 1 else plan.gpu.name
    verdict, style = ("fits", "bold green") if plan.fits else ("does not fit", "bold red")
    demand = f"{_streams(plan.demand.streams)} of {plan.length:,} tokens"
    out.print(f"{plan.facts.name} on {kind} {verdict}: {demand}", style=style)
    for label, amount, note in _lines(plan):
        out.print(f"  {label:<14}{amount:>12}  {note}")
    if plan.why_not:
        out.print(f"\nwhy not: {plan.why_not}", style="red")
        for number, way in enumerate(ways_out(plan), start=1):
            out.print(f"  {number}. {way.what}: {_streams(way.plan.streams)} of {way.plan.length:,} tokens fit")
        return
    out.print(f"\nflags: {shlex.join(word for flag in plan.flags.items() for word in flag)}", soft_wrap=True)
    bound = decode_bound(plan)
    if bound is not None:
        out.print(f"bound: at most {bound:,.0f} written tokens/s by memory bandwidth; measure what is reached")
    if money.per_million(plan):
        left_out = f", without power: that of {plan.gpu.name} is not known" if money.leaves_out_power(plan) else ""
        out.print(
            f"cost:  {_cost(plan, money)} per million written tokens, at {money.per_hour(plan):.4g} a GPU and hour"
            f"{left_out}"
        )
    part = smallest_slice(plan)
    if part is not None:
        out.print(f"slice: {part.gpu.name} is enough ({_gib(part.gpu.memory_bytes)}, {_streams(part.streams)})")


def _lines(plan: Plan) -> Iterator[tuple[str, str, str]]:
    room, layout, facts = plan.budget, plan.layout, plan.facts
    stored = ", ".join(f"{name} {_gib(size)}" for name, size in facts.dtype_bytes.items())
    yield "memory", _gib(int(room.memory * room.utilisation)), f"{_gib(room.memory)} * {room.utilisation:g}"
    shared = f" / {room.ranks} GPUs" if room.ranks > 1 else ""
    yield "- weights", _gib(room.weights), f"{_gib(facts.weight_bytes)}{shared}; {facts.measured}: {stored or 'all'}"
    yield "- activations", _gib(room.activations), f"estimate for {plan.demand.batched_tokens:,} batched tokens"
    yield "- context", _gib(room.context), f"estimate: driver, libraries{', NCCL' if room.ranks > 1 else ''}"
    if room.graphs:
        yield "- CUDA graphs", _gib(room.graphs), "estimate"
    blocks = f"{plan.pool_blocks:,} blocks of {layout.block_size} tokens and {layout.block_bytes:,} bytes"
    yield "= KV pool", _gib(max(0, room.kv_pool)), blocks
    kinds = " + ".join(f"{count} {kind}" for kind, count in layout.layers.items())
    later = f"; {layout.marginal_bytes_per_token:,} B once windows are full" if layout.window else ""
    yield "a token", f"{layout.bytes_per_token:,} B", f"{kinds} layers of {layout.layer_token_bytes:,} B each{later}"
    held = f"{_streams(plan.streams)} fit, or one of {plan.longest:,} tokens"
    yield "a stream", f"{plan.blocks_a_stream:,}", f"blocks for {plan.length:,} tokens; {held}"


def as_json(plans: Sequence[Plan], money: Money) -> str:
    """All plans for a program; bytes of one GPU."""
    return json.dumps([_plain(plan, money) for plan in plans], indent=2) + "\n"


def _plain(plan: Plan, money: Money) -> dict[str, object]:
    layout, cost, part = plan.layout, money.per_million(plan), smallest_slice(plan)
    return {
        "model": plan.facts.name,
        "weight_bytes": plan.facts.weight_bytes,
        "weights_from": plan.facts.measured,
        "gpu": plan.gpu.name,
        "gpus": plan.ranks,
        "fits": plan.fits,
        "why_not": plan.why_not,
        "length": plan.length,
        "streams_wanted": plan.demand.streams,
        "streams": plan.streams,
        "longest": plan.longest,
        "budget": {**asdict(plan.budget), "kv_pool": plan.budget.kv_pool},
        "kv": {
            "bytes_per_token": layout.bytes_per_token, "marginal_bytes_per_token": layout.marginal_bytes_per_token,
            "block_bytes": layout.block_bytes, "block_size": layout.block_size, "layers": dict(layout.layers),
            "pool_blocks": plan.pool_blocks, "blocks_a_stream": plan.blocks_a_stream,
        },
        "flags": dict(plan.flags),
        "smallest_slice": None if part is None else part.gpu.name,
        "tokens_per_s_bound": decode_bound(plan),
        "price_per_gpu_hour": money.per_hour(plan),
        "cost_per_million_tokens": None if cost is None else cost[0],
        "cost_is_a_least_one": None if cost is None else cost[1],
        "ways_out": [
            {
                "what": way.what, "gpu": way.plan.gpu.name, "gpus": way.plan.ranks, "streams": way.plan.streams,
                "length": way.plan.length, "flags": dict(way.plan.flags),
            }
            for way in ways_out(plan)
        ],
    }  # fmt: skip


def _cost(plan: Plan, money: Money) -> str:
    found = money.per_million(plan)
    if found is None:
        return "-"
    return f"at least {found[0]:.3g}" if found[1] else f"{found[0]:.3g}"


def _streams(count: int) -> str:
    return f"{count:,} stream{'' if count == 1 else 's'}"


def _gib(size: int) -> str:
    return f"{size / GIB:.2f} GiB" if size >= GIB // 10 else f"{size / 2**20:.1f} MiB"
