"""The metrics that our queries may ask for, and the labels that each has, so that a query asks for what is there.

Engine: vLLM's own list (`vllm/v1/metrics/`, 0.32), and prometheus-fastapi-instrumentator's as vLLM sets it up. GPU:
dcgm-exporter's `etc/default-counters.csv`; what that file leaves switched off is marked, for a query about it is empty
in a cluster that has not switched it on. A name that Prometheus does not know is no error there: it is silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

TARGET_LABELS = frozenset(
    [
        "namespace",
        "pod",
        "container",
        "job",
        "instance",
        "endpoint",
        "app_kubernetes_io_name",
        "rollouts_pod_template_hash",
    ]
)
"""Given by Prometheus and by our PodMonitor, not by the engine."""
_ENGINE = TARGET_LABELS | {"model_name", "engine"}
_GPU = TARGET_LABELS | {"gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname", "DCGM_FI_DRIVER_VERSION"}
HISTOGRAM = ("_bucket", "_count", "_sum")

_GAUGES: Mapping[str, Iterable[str]] = {
    "num_requests_running": (),
    "num_requests_waiting": (),
    "num_requests_waiting_by_reason": ("reason",),
    "kv_cache_usage_perc": (),
    "lora_requests_info": ("max_lora", "waiting_lora_adapters", "running_lora_adapters"),
    "engine_sleep_state": ("sleep_state",),
    "cache_config_info": ("num_gpu_blocks", "block_size"),
}
_COUNTERS: Mapping[str, Iterable[str]] = {
    "num_preemptions_total": (),
    "prompt_tokens_total": (),
    "prompt_tokens_cached_total": (),
    "generation_tokens_total": (),
    "prefix_cache_queries_total": (),
    "prefix_cache_hits_total": (),
    "external_prefix_cache_queries_total": (),
    "external_prefix_cache_hits_total": (),
    "mm_cache_queries_total": (),
    "mm_cache_hits_total": (),
    "request_success_total": ("finished_reason",),
    "corrupted_requests_total": (),
    "admission_rejections_total": ("reason",),
    "spec_decode_num_drafts_total": (),
    "spec_decode_num_draft_tokens_total": (),
    "spec_decode_num_accepted_tokens_total": (),
    "spec_decode_num_accepted_tokens_per_pos_total": ("position",),
}
_HISTOGRAMS = (
    "time_to_first_token_seconds",
    "inter_token_latency_seconds",
    "request_time_per_output_token_seconds",
    "e2e_request_latency_seconds",
    "request_queue_time_seconds",
    "request_inference_time_seconds",
    "request_prefill_time_seconds",
    "request_decode_time_seconds",
    "request_prompt_tokens",
    "request_generation_tokens",
    "request_max_num_generation_tokens",
    "request_params_n",
    "request_params_max_tokens",
    "request_num_preemptions",
    "request_prefill_kv_computed_tokens",
    "iteration_tokens_total",
)
RENAMED: Mapping[str, str] = {
    "vllm:gpu_cache_usage_perc": "vllm:kv_cache_usage_perc",
    "vllm:gpu_prefix_cache_queries_total": "vllm:prefix_cache_queries_total",
    "vllm:gpu_prefix_cache_hits_total": "vllm:prefix_cache_hits_total",
    **{f"vllm:time_per_output_token_seconds{part}": f"vllm:inter_token_latency_seconds{part}" for part in HISTOGRAM},
}
"""What earlier engines called it; a query under an old name is silent on a current one."""
_DCGM_ON = """
    SM_CLOCK MEM_CLOCK MEMORY_TEMP GPU_TEMP POWER_USAGE TOTAL_ENERGY_CONSUMPTION PCIE_TX_THROUGHPUT
    PCIE_RX_THROUGHPUT PCIE_REPLAY_COUNTER GPU_UTIL MEM_COPY_UTIL ENC_UTIL DEC_UTIL XID_ERRORS FB_FREE FB_USED
    NVLINK_BANDWIDTH_TOTAL VGPU_LICENSE_STATUS UNCORRECTABLE_REMAPPED_ROWS CORRECTABLE_REMAPPED_ROWS
    ROW_REMAP_FAILURE
"""
_DCGM_OFF = """
    POWER_VIOLATION THERMAL_VIOLATION SYNC_BOOST_VIOLATION BOARD_LIMIT_VIOLATION LOW_UTIL_VIOLATION
    RELIABILITY_VIOLATION ECC_SBE_VOL_TOTAL ECC_DBE_VOL_TOTAL ECC_SBE_AGG_TOTAL ECC_DBE_AGG_TOTAL RETIRED_SBE
    RETIRED_DBE RETIRED_PENDING NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL NVLINK_CRC_DATA_ERROR_COUNT_TOTAL
    NVLINK_REPLAY_ERROR_COUNT_TOTAL NVLINK_RECOVERY_ERROR_COUNT_TOTAL
"""
SWITCHED_OFF = frozenset(f"DCGM_FI_DEV_{name}" for name in _DCGM_OFF.split())
"""GPU metrics that dcgm-exporter knows and exports only when its list of counters is extended."""


def _known() -> Mapping[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {
        "up": TARGET_LABELS,
        "process_start_time_seconds": TARGET_LABELS,
        "process_resident_memory_bytes": TARGET_LABELS,
        "process_cpu_seconds_total": TARGET_LABELS,
        "http_requests_total": TARGET_LABELS | {"handler", "method", "status"},
    }
    for name, own in {**_GAUGES, **_COUNTERS}.items():
        found[f"vllm:{name}"] = _ENGINE | set(own)
    for name in _HISTOGRAMS:
        for part in HISTOGRAM:
            found[f"vllm:{name}{part}"] = _ENGINE | ({"le"} if part == "_bucket" else set())
    for name in (*_DCGM_ON.split(), *_DCGM_OFF.split()):
        found[f"DCGM_FI_DEV_{name}"] = _GPU | ({"err_code", "err_msg"} if name == "XID_ERRORS" else set())
    return found


KNOWN: Mapping[str, frozenset[str]] = _known()
"""Every metric by its full name, with all labels that it may have."""


def strangers(selectors: Iterable[tuple[str, Iterable[str]]]) -> tuple[str, ...]:
    """What is wrong with a query's (metric, labels) pairs, in words; empty when all of it is known."""
    found = []
    for name, labels in selectors:
        if name not in KNOWN:
            found.append(f"no metric {name}")
            continue
        found += [f"{name} has no label {label}" for label in sorted(set(labels) - KNOWN[name])]
    return tuple(found)
