"""What GPUs cost and how much they write, as `modelctl size` is told: one amount for all, or one for each by name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from modelctl.errors import InputError
from modelctl.sizing.cost import cost_per_million, decode_bound, hourly_price
from modelctl.sizing.gpus import Gpu, find_gpu
from modelctl.sizing.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Amounts:
    """An amount by GPU, and the one of all others."""

    others: float | None = None
    by_gpu: Mapping[str, float] = field(default_factory=dict)

    def of(self, gpu: Gpu) -> float | None:
        """The amount of one GPU, if there is one."""
        return self.by_gpu.get(gpu.name, self.others)

    def clashes(self, other: Amounts) -> bool:
        """Whether both have an amount for the same GPU, or for all others."""
        return bool(self.by_gpu.keys() & other.by_gpu.keys()) or None not in (self.others, other.others)


def parse_amounts(option: str, texts: Sequence[str]) -> Amounts:
    """What `2.5` and `L4=0.8` mean. Raises `InputError`."""
    others: float | None = None
    by_gpu: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        amount = _number(number)
        gpu = find_gpu(name).name if equals else None
        if amount is None or (gpu is None and others is not None) or gpu in by_gpu:
            raise InputError(
                f"{option} '{text}': wanted is one number above zero for all GPUs, or one for each GPU=NUMBER",
                remedy=f"write for example {option} 2.5, or {option} L4=0.8 {option} H100-80GB=2.5",
            )
        if gpu is None:
            others = amount
        else:
            by_gpu[gpu] = amount
    return Amounts(others=others, by_gpu=by_gpu)


def _number(text: str) -> float | None:
    try:
        amount = float(text)
    except ValueError:
        return None
    return amount if math.isfinite(amount) and amount > 0 else None


@dataclass(frozen=True, kw_only=True)
class Money:
    """Prices, in whatever currency they were given, and stated or measured throughputs in tokens/s."""

    price: Amounts
    purchase: Amounts
    years: float
    power_price: float
    tokens_per_s: Amounts

    def per_hour(self, plan: Plan) -> float | None:
        """Price of one GPU of a plan per hour; what is named for it counts before what is named for all."""
        purchase, price = self.purchase.of(plan.gpu), self.price.of(plan.gpu)
        if purchase is None or (plan.gpu.name in self.price.by_gpu and plan.gpu.name not in self.purchase.by_gpu):
            return price
        return hourly_price(
            purchase=purchase, years=self.years, power_w=plan.gpu.power_w or 0, price_per_kwh=self.power_price
        )

    def leaves_out_power(self, plan: Plan) -> bool:
        """Whether power was to be counted and the GPU's is not known."""
        return bool(self.power_price) and plan.gpu.power_w is None and self.purchase.of(plan.gpu) is not None

    def per_million(self, plan: Plan) -> tuple[float, bool] | None:
        """Cost of a million written tokens, and whether it is a least one: only a bound of the throughput is known."""
        hourly, bound, told = self.per_hour(plan), decode_bound(plan), self.tokens_per_s.of(plan.gpu)
        rate = told or bound
        if hourly is None or rate is None or not plan.fits:
            return None
        return cost_per_million(price_per_hour=hourly, gpus=plan.ranks, tokens_per_s=rate), told is None


def best(plans: Sequence[Plan], money: Money) -> Plan:
    """The plan to explain: the cheapest that fits, by cost where it is known, else by GPUs and memory; the last when
    none fits."""

    def order(plan: Plan) -> tuple[float, int, int]:
        cost = money.per_million(plan)
        return (math.inf if cost is None else cost[0], plan.ranks, plan.ranks * plan.gpu.memory_bytes)

    return min((plan for plan in plans if plan.fits), key=order, default=plans[-1])
