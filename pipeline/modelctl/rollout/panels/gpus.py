"""The GPUs of the model's pods, as NVIDIA's dcgm-exporter reports them."""

from __future__ import annotations

from modelctl.rollout.environment import Environment
from modelctl.rollout.panels.base import RATE, Panel, Query, query

GPU = 'namespace="$namespace",pod=~"$model-.*"'
ONE_GPU = "{{pod}} GPU {{gpu}}"


def gpu_panels(environment: Environment) -> tuple[Panel, ...]:
    """The GPUs of the model's pods, as NVIDIA's dcgm-exporter reports them."""

    def one(metric: str, scale: str = "") -> tuple[Query, ...]:
        return (query(f"max by (pod, gpu) (DCGM_FI_DEV_{metric}{{{GPU}}}){scale}", ONE_GPU),)

    used, free = f"DCGM_FI_DEV_FB_USED{{{GPU}}}", f"DCGM_FI_DEV_FB_FREE{{{GPU}}}"
    return (
        Panel(
            title="Busy",
            description="Share of the time in which a kernel ran: 100 % says nothing of how well it used the GPU.",
            unit="percent",
            most=100,
            queries=one("GPU_UTIL"),
        ),
        Panel(
            title="Memory in use",
            description="The engine reserves its share when it starts, so this does not follow the load.",
            unit="percentunit",
            most=1,
            thresholds=(environment.alerts.gpu_memory_share,),
            queries=(query(f"max by (pod, gpu) ({used} / ({used} + {free}))", ONE_GPU),),
        ),
        Panel(title="Power", description="Draw of each GPU.", unit="watt", queries=one("POWER_USAGE")),
        Panel(title="Temperature", description="Of the chip.", unit="celsius", queries=one("GPU_TEMP")),
        Panel(
            title="Memory temperature", description="Of the GPU's memory.", unit="celsius", queries=one("MEMORY_TEMP")
        ),
        Panel(
            title="Clock",
            description="Falls when the GPU is too hot or may not draw more power.",
            unit="hertz",
            queries=one("SM_CLOCK", " * 1e6"),
        ),
        Panel(
            title="Last XID error",
            description="Zero is none. NVIDIA's list of XID errors says what a number means.",
            unit="short",
            thresholds=(1,),
            queries=one("XID_ERRORS"),
        ),
        Panel(
            title="Memory rows remapped for errors",
            description="Uncorrectable errors made the GPU replace a row of memory; a failed replacement ends its use.",
            unit="short",
            thresholds=(1,),
            queries=(
                query(f"max by (pod, gpu) (DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS{{{GPU}}})", f"rows {ONE_GPU}"),
                query(f"max by (pod, gpu) (DCGM_FI_DEV_ROW_REMAP_FAILURE{{{GPU}}})", f"failed {ONE_GPU}"),
            ),
        ),
        Panel(
            title="PCIe retries per minute",
            description="A sign of a bad slot, riser or cable.",
            unit="short",
            queries=(
                query(f"60 * sum by (pod, gpu) (rate(DCGM_FI_DEV_PCIE_REPLAY_COUNTER{{{GPU}}}[{RATE}]))", ONE_GPU),
            ),
        ),
    )
