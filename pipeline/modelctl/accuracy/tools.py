"""The installed versions of the libraries that quantise and measure, read without importing them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from modelctl.errors import CannotDecideError

QUANTISING = ("gptqmodel", "torch", "transformers")
_NETWORK_VARIABLES = (
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE", "HF_ENDPOINT", "HF_TOKEN",
)  # fmt: skip
MEASURING = ("lm_eval", "gptqmodel", "torch", "transformers")


def versions(names: tuple[str, ...]) -> Mapping[str, str]:
    """Name and version of each library. Raises `CannotDecideError` that names the missing one and how to install it."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError as error:
            raise CannotDecideError(
                f"{name} is not installed", remedy="pip install 'modelctl[quantization]', then modelctl doctor"
            ) from error
    return found


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


def has_gpu() -> bool:
    """Whether there is an NVIDIA device to hand to a child."""
    return any(Path("/dev").glob("nvidia[0-9]*"))


def worker_environment() -> dict[str, str]:
    """What the children need to know.

    gptqmodel starts one worker on two cores by itself, and then waits for it for ever. OpenMP's threads spin while they
    wait for each other, which on a machine with other work makes an evaluation three times slower than sleeping does.
    gptqmodel compiles how weights are unpacked, again for each of a model's many shapes, until torch gives up and
    spends its time on saying so; nothing here runs long enough to win that back.
    """
    return {
        "TORCHDYNAMO_DISABLE": "1",
        "GPTQMODEL_CPU_WORKERS": str(max(2, cores())),
        "OMP_NUM_THREADS": str(cores()),
        "OMP_WAIT_POLICY": "PASSIVE",
    }


def network_environment() -> dict[str, str]:
    """What a child that fetches questions or text is told of the way to the Hub."""
    return {name: os.environ[name] for name in _NETWORK_VARIABLES if name in os.environ}
