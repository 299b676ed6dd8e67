"""The engine's command line: every flag spelled out, each with the reason that it has this value.

Engine defaults have changed between releases, so nothing is left to them. Lengths, streams and parallelism are the
release file's, with which the stress checks ran; what these measured stands beside them as a comment.
"""

from __future__ import annotations

from collections.abc import Iterator

from modelctl.errors import InputError
from modelctl.model.release import Serving
from modelctl.rollout.environment import Environment
from modelctl.rollout.evidence import Evidence
from modelctl.rollout.manifest import Commented, ServedRelease

PORT = 8000
QUIET_PATHS = "/health,/metrics"
_STATED = "release.yaml"


def engine_arguments(
    release: ServedRelease, serving: Serving, environment: Environment, evidence: Evidence | None = None
) -> tuple[str, ...]:
    """The engine's arguments. Raises `InputError` for a length that is left open."""
    model = weights_path(release) if environment.weights == "pull" else f"{release.uri}/"
    flags = [
        *_listening(release, environment),
        *_memory(release, serving, environment, evidence or Evidence()),
        *_loading(environment),
        *_telling(environment),
    ]
    return (model, *(Commented(text, comment) if comment else text for text, comment in flags))


def notes(release: ServedRelease, serving: Serving, environment: Environment, evidence: Evidence) -> tuple[str, ...]:
    """What a person should know where the evidence does not carry the flags, one sentence each."""
    found = []
    length, scaling = serving.max_model_len, environment.autoscaling
    if length is not None and evidence.longest_answered is not None and evidence.longest_answered < length:
        found.append(
            f"{release.id} is served up to {length} tokens, and was seen to answer up to {evidence.longest_answered}"
        )
    if scaling is not None and evidence.streams is not None and scaling.streams_per_replica > evidence.streams:
        found.append(
            f"autoscaling counts on {scaling.streams_per_replica} streams a replica, and {evidence.streams} were tried"
        )
    return tuple(found)


def weights_path(release: ServedRelease) -> str:
    """Where the verified weights lie in the pod."""
    return f"/models/{release.name}"


def gpus_per_replica(serving: Serving, environment: Environment) -> int:
    """GPUs of one replica. Raises `InputError` when they don't fit the tensor parallelism."""
    count = serving.gpu.count if environment.gpu.count is None else environment.gpu.count
    if count not in (0, serving.tensor_parallel_size):
        raise InputError(
            f"a replica gets {count} GPUs, but tensor_parallel_size is {serving.tensor_parallel_size}",
            remedy="make gpu.count and tensor_parallel_size equal in release.yaml",
        )
    return count


def _listening(release: ServedRelease, environment: Environment) -> Iterator[tuple[str, str]]:
    yield "--host=0.0.0.0", ""
    yield f"--port={PORT}", ""
    yield f"--served-model-name={release.name}", ""
    yield "--generation-config=vllm", "the model's own file would silently override sampling defaults"
    yield f"--shutdown-timeout={environment.engine.shutdown_timeout_s}", "running streams are not cut at once"


def _memory(
    release: ServedRelease, serving: Serving, environment: Environment, evidence: Evidence
) -> Iterator[tuple[str, str]]:
    length = serving.max_model_len
    if length is None:
        raise InputError(
            f"{release.id}: spec.serving.max_model_len is not set; a rollout leaves nothing to the engine's defaults",
            remedy="set it in release.yaml to the length that the long-context check measured, as a new version",
        )
    answered, streams, pool = evidence.longest_answered, evidence.streams, evidence.kv_tokens
    measured = f"long-context answered up to {answered} tokens" if answered else "nobody measured it"
    yield f"--max-model-len={length}", f"{_STATED}; {measured}"
    measured = f"concurrency held {streams} streams" if streams else "nobody measured it"
    yield f"--max-num-seqs={serving.max_num_seqs}", f"{_STATED}; {measured}"
    yield f"--max-num-batched-tokens={serving.max_num_batched_tokens}", f"{_STATED}; the stress checks ran with it"
    gpus = gpus_per_replica(serving, environment)
    parallel = f"{_STATED}; one rank on each of {gpus} GPUs" if gpus > 1 else _STATED
    yield f"--tensor-parallel-size={serving.tensor_parallel_size}", parallel
    if serving.block_size:
        yield f"--block-size={serving.block_size}", _STATED
    else:
        yield f"--block-size={environment.engine.block_size}", "environment.yaml"
    if gpus:
        fits = f"; its KV cache held {pool} tokens, {pool // length} streams of full length" if pool else ""
        yield f"--gpu-memory-utilization={serving.gpu_memory_utilization}", f"{_STATED}{fits}"


def _loading(environment: Environment) -> Iterator[tuple[str, str]]:
    if environment.weights == "stream":
        yield "--load-format=runai_streamer", "environment.yaml: weights are read from the store"


def _telling(environment: Environment) -> Iterator[tuple[str, str]]:
    """Logs and traces: no text of a user in either. vLLM logs prompts with requests at the level DEBUG alone."""
    if environment.logs.access:
        yield f"--disable-access-log-for-endpoints={QUIET_PATHS}", "one line for every other request"
    else:
        yield "--disable-uvicorn-access-log", ""
    yield "--enable-log-requests" if environment.logs.requests else "--no-enable-log-requests", ""
    yield "--no-enable-log-outputs", "answers are nobody's to read"
    yield "--max-log-len=0", "nor are prompts"
    if environment.tracing is not None:
        yield f"--otlp-traces-endpoint={environment.tracing.endpoint}", ""
