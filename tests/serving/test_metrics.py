from __future__ import annotations

from modelctl.serving.metrics import parse_page, read_metrics

PAGE = """
# HELP vllm:num_requests_running Number of requests
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 4.0
vllm:num_requests_waiting{engine="0",model_name="m"} 7.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="deferred"} 5.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.25
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="101"} 1.0
vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="101"} 1.0
vllm:generation_tokens_total{engine="0",model_name="a\\"b,}{"} 1.5e+03
process_start_time_seconds 1.79604844846e+09
nonsense {
"""


def test_engines_are_added_up_and_names_matched_whole() -> None:
    found = read_metrics(PAGE, at_s=1.0)
    assert found.running == 7
    assert found.waiting == 2  # deferred requests do not wait for capacity
    assert found.kv_usage == 0.5
    assert (found.kv_blocks, found.block_size, found.kv_blocks_used) == (200, 16, 75)
    assert found.generation_tokens == 1500
    assert found.started_at == 1.79604844846e09


def test_what_is_not_there_is_none_and_never_0() -> None:
    found = read_metrics("", at_s=1.0)
    assert found.running is found.waiting is found.kv_usage is found.kv_blocks_used is found.preemptions is None
    assert read_metrics(PAGE, at_s=1.0).preemptions is None


def test_names_of_earlier_releases() -> None:
    old = (
        'vllm:gpu_cache_usage_perc 0.5\nvllm:gpu_prefix_cache_hits_total 3\nvllm:num_requests_waiting{model_name="m"} 4'
    )
    found = read_metrics(old, at_s=1.0)
    assert (found.kv_usage, found.prefix_hits, found.waiting, found.kv_blocks_used) == (0.5, 3, 4, None)


def test_labels_may_hold_quotes_commas_and_braces() -> None:
    sample = next(sample for sample in parse_page(PAGE) if sample.name == "vllm:generation_tokens_total")
    assert sample.labels["engine"] == "0"
    assert sample.value == 1500


def test_a_timestamp_after_the_value_is_no_part_of_it() -> None:
    assert parse_page("a 1.5 1700000000000\nb NaN\nc +Inf")[0].value == 1.5
