"""`registry/<name>/<version>/release.yaml`: what the person who proposes a release writes.

The name and version must agree with the folder. A release asks for one source; what is served is the source itself, or
what modelctl makes of it when `quantization` is there.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from modelctl.documents import Document, load_document, nearest
from modelctl.errors import InputError

NAME_PATTERN = r"^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$"
VERSION_PATTERN = r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$"
Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
Version = Annotated[str, StringConstraints(pattern=VERSION_PATTERN)]
HubId = Annotated[str, StringConstraints(pattern=r"^[\w.-]+/[\w.-]+$")]
Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]


S3Uri = Annotated[str, StringConstraints(pattern=r"^s3://[^/\s]+(/.*)?$")]
BlockSize = Literal[8, 16, 32, 64, 128, 256]
TreeDigest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]


class Source(Document):
    """Where the model repository comes from: exactly one of `hub`, `folder`, `s3` and `dvc`."""

    hub: HubId | None = None
    revision: Commit | None = None
    """The pinned commit of `hub`: 40 hex digits, never a branch."""
    folder: Path | None = None
    """A folder, relative to the release file's registry repository."""
    s3: S3Uri | None = None
    """A prefix of the object store that the settings name."""
    dvc: Path | None = None
    """A DVC pointer, relative to the release file's registry repository."""
    digest: TreeDigest | None = None
    """The tree digest that the files must have; pins what nothing else does."""
    upstream: HubId | None = None
    """The official repository that the files must equal, at `upstream_revision`; not beside `hub`, which is one."""
    upstream_revision: Commit | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Source:
        if sum(value is not None for value in (self.hub, self.folder, self.s3, self.dvc)) != 1:
            raise ValueError("give exactly one of 'hub', 'folder', 's3' and 'dvc'")
        if self.hub is not None and self.revision is None:
            raise ValueError("'hub' needs 'revision': the pinned commit (40 hex digits)")
        if self.hub is not None and self.upstream is not None:
            raise ValueError("'hub' is an official repository itself: leave out 'upstream'")
        if (self.upstream is None) != (self.upstream_revision is None):
            raise ValueError("'upstream' and 'upstream_revision' belong together")
        return self


class Calibration(Document):
    """The text that quantising looks at: exactly one of `file` and `dataset`."""

    file: Path | None = None
    """Plain text, or `.jsonl` with one text or object a line; relative to the registry repository."""
    dataset: HubId | None = None
    """A data set of the Hub."""
    revision: Commit | None = None
    """The pinned commit of `dataset`."""
    subset: str | None = None
    """The configuration of `dataset`, where it has several."""
    split: str = "train"
    """The part of `dataset` that is read."""
    column: str = "text"
    """Where the text is in an object or a row."""

    @model_validator(mode="after")
    def _one_text(self) -> Calibration:
        if (self.file is None) == (self.dataset is None):
            raise ValueError("give exactly one of 'file' and 'dataset'")
        if (self.dataset is None) != (self.revision is None):
            raise ValueError("'dataset' and 'revision' (the pinned commit, 40 hex digits) belong together")
        return self


class Quantization(Document):
    """How modelctl makes the served tree from the source."""

    method: Literal["gptq"] = "gptq"
    bits: Literal[2, 3, 4, 8] = 4
    group_size: Literal[16, 32, 64, 128] = 128
    desc_act: bool = False
    exclude: tuple[str, ...] = ()
    """Regular expressions of module names that stay as they are (`self_attn`, `down_proj`)."""
    calibration: Calibration | None = None
    """The text to calibrate with. None: the policy's, else the multilingual sample that ships with modelctl."""
    calibration_samples: Annotated[int, Field(ge=1, le=4096)] = 256
    calibration_tokens: Annotated[int, Field(ge=16, le=8192)] = 512
    """Tokens of one sample; fewer when the model's longest input is shorter."""
    seed: int = 0

    @model_validator(mode="after")
    def _patterns(self) -> Quantization:
        for pattern in self.exclude:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"exclude: '{pattern}' is no regular expression: {error}") from error
        return self


class Gpu(Document):
    """What one replica needs."""

    resource: str = "nvidia.com/gpu"
    count: Annotated[int, Field(ge=0, le=64)] = 1
    product: str | None = None
    """Node label `nvidia.com/gpu.product`, when only one kind will do."""


class Serving(Document):
    """How the release is served; the stress checks use the same figures."""

    engine: Literal["vllm"] = "vllm"
    image: Annotated[str, StringConstraints(pattern=r"^\S+@sha256:[0-9a-f]{64}$")] | None = None
    """The engine's image by digest; needed for a rollout."""
    max_model_len: Annotated[int, Field(ge=16)] | None = None
    """Stated maximum of prompt and answer, in tokens; None: what config.json says."""
    max_num_seqs: Annotated[int, Field(ge=1)] = 128
    max_num_batched_tokens: Annotated[int, Field(ge=16)] = 8192
    block_size: BlockSize | None = None
    """Tokens of a KV block. None: 16 on a GPU, 128 on a CPU, and in a rollout what the environment says."""
    tensor_parallel_size: Annotated[int, Field(ge=1, le=64)] = 1
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] = 0.9
    gpu: Gpu = Gpu()


class Metadata(Document):
    """A release's name and semantic version."""

    name: Name
    version: Version


class ReleaseSpec(Document):
    """What is asked for."""

    source: Source
    baseline: Source | None = None
    """The original to compare with: of weights that are quantised already, or of a fine-tuned model."""
    base: Source | None = None
    """What a LoRA adapter is served on; only for an adapter, and then needed by the checks that serve it."""
    license: str | None = None
    quantization: Quantization | None = None
    serving: Serving = Serving()
    policy: str | None = None


class Release(Document):
    """A whole release file."""

    api_version: Annotated[Literal["modelctl.dev/v1"], Field(alias="apiVersion")]
    kind: Literal["ModelRelease"]
    metadata: Metadata
    spec: ReleaseSpec

    @property
    def id(self) -> str:
        """`name@version`."""
        return f"{self.metadata.name}@{self.metadata.version}"


def release_folder(registry_root: Path, name: str, version: str) -> Path:
    """The record's folder in a registry repository."""
    return registry_root / "registry" / name / version


def similar_release(root: Path, name: str, version: str | None = None) -> str | None:
    """The release file of a registry repository whose id is nearest to what was typed, as NAME@VERSION, or None."""
    names = {path.parent.name for path in root.glob("registry/*/*")}
    close = name if name in names else nearest(name, sorted(names))
    versions = [path.parent.name for path in root.glob(f"registry/{close}/*/release.yaml")] if close else []
    if not versions:
        return None
    return f"{close}@{(version and nearest(version, versions)) or max(versions)}"


def parse_release_id(text: str) -> tuple[str, str]:
    """Split `name@version`. Raises `InputError` when either part is malformed."""
    name, _, version = text.partition("@")
    if not re.fullmatch(NAME_PATTERN, name) or not re.fullmatch(VERSION_PATTERN, version):
        raise InputError(f"'{text}' is not NAME@VERSION", remedy="write for example smollm2-135m@1.0.0")
    return name, version


def load_release(path: Path) -> Release:
    """Read a release file and check that its folder agrees with it. Raises `InputError`."""
    release = load_document(path, Release)
    folder = path.resolve().parent
    if folder.parent.parent.name == "registry":
        for found, wanted, key in (
            (release.metadata.name, folder.parent.name, "metadata.name"),
            (release.metadata.version, folder.name, "metadata.version"),
        ):
            if found != wanted:
                raise InputError(
                    f"{path}: {key} is '{found}', but the folder says '{wanted}'",
                    remedy=f"rename the folder or write {key}: {wanted}",
                )
    return release
