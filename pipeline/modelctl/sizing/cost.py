"""What a million tokens cost: a price per hour over the tokens that are written in it.

A bought GPU costs its price spread over the hours of its years, and the power that it draws.
"""

from __future__ import annotations

from modelctl.sizing.plan import Plan

HOURS_A_YEAR = 8760.0


def hourly_price(*, purchase: float, years: float, power_w: float, price_per_kwh: float) -> float:
    """Price of one bought GPU per hour, in the currency of the arguments."""
    return purchase / (years * HOURS_A_YEAR) + power_w / 1000 * price_per_kwh


def cost_per_million(*, price_per_hour: float, gpus: int, tokens_per_s: float) -> float:
    """Cost of a million written tokens, all GPUs together. `tokens_per_s` is above zero."""
    return price_per_hour * gpus / (tokens_per_s * 3600) * 1e6


def decode_bound(plan: Plan) -> float | None:
    """Written tokens a second that memory bandwidth allows at most (a bound, not an estimate of what is reached).

    Each step reads the weights once and every stream's cache, and writes one token a stream (roofline of the decode
    phase). A mixture is counted with all experts, as a step of many streams touches them. None without a bandwidth.
    """
    bandwidth = plan.gpu.bandwidth_bytes_s
    streams = min(plan.demand.streams, plan.streams)
    if bandwidth is None or streams < 1:
        return None
    caches = streams * plan.layout.need_bytes(max(1, plan.length // 2))  # half full on average
    return streams * bandwidth / (plan.budget.weights + caches)
