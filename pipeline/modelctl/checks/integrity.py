"""integrity: every byte is what the official repository says, and the files are whole and what their names say.

With an upstream listing (a Hub id, or a folder's `upstream:`) each file is held against its LFS sha256 or git blob
sha1, and nothing may be missing or extra. With or without, each file is known by its content, and safetensors files,
their index and config.json agree.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import PurePosixPath
from typing import ClassVar, Literal

from modelctl.checks.base import CheckContext, CheckLimits, Coverage, Finding, Measurement, Observation, Undecided
from modelctl.errors import CannotDecideError, InputError
from modelctl.model.config import CONFIG_NAME, load_config
from modelctl.model.content import ARCHIVES, SERIALIZED, WINDOW_BYTES, ContentKind, identify, lfs_pointer
from modelctl.model.listing import Upstream, UpstreamFile, file_digest
from modelctl.model.safetensors import Header, read_header
from modelctl.model.shards import check_indexes
from modelctl.model.tree import FileEntry, Tree
from modelctl.model.weights import check_weights, dtype_shares

ID = "integrity"
MAX_PER_RULE = 20
"""Findings of one rule that are listed one by one; the rest is counted."""

WeightFormat = Literal["safetensors", "gguf"]

_OTHER_WEIGHTS = frozenset(
    {
        ".bin", ".ckpt", ".h5", ".hdf5", ".joblib", ".keras", ".mlmodel", ".msgpack", ".nemo", ".npy", ".npz", ".onnx",
        ".onnx_data", ".ot", ".pb", ".pickle", ".pkl", ".pt", ".pth", ".tflite",
    }
)  # fmt: skip
"""Suffixes of weights that no allowed format has, some of which engines load by suffix alone."""
_TEXTUAL = (".json", ".jinja", ".txt", ".model", ".safetensors", ".gguf", ".py", ".yaml", ".yml")
_RESTORE = "take the file from the official repository again: hf download ORG/NAME FILE --revision COMMIT"
_REMEDIES: Mapping[str, str] = {
    "upstream-changed": "take the file from the official repository at the pinned commit, or pin the one that has it",
    "upstream-missing": "take the file from the official repository at the pinned commit",
    "upstream-extra": "delete the file, or pin a commit that has it",
    "stray-file": "delete the folder: no engine needs it, and programs may run what is in it",
    "lfs-pointer": "run git lfs pull, or download the file with hf download",
    "disguised": _RESTORE,
    "format": "delete the file, or convert it to safetensors; the policy's integrity.formats names what is allowed",
    "safetensors": "take the file from its source again, or write it anew with safetensors.save_file",
    "index": "take the index and all its parts from one commit, or write both anew with save_pretrained",
    "no-weights": "put the *.safetensors files beside config.json",
    "no-config": "put config.json beside the weights",
    "config": "mend config.json or take it from the official repository",
    "weights": "take config.json and the weights from one commit, or save both together with save_pretrained",
    "path": "replace it with a plain file, or delete it",
}


class IntegrityLimits(CheckLimits):
    """What integrity demands."""

    require_upstream: bool = False
    """Without an upstream listing to compare with, do not decide."""
    formats: tuple[WeightFormat, ...] = ("safetensors", "gguf")
    """Weight formats that may be in the repository."""


class Integrity:
    """The check."""

    id: ClassVar[str] = ID
    decides: ClassVar[str] = "every file equals the official one, is whole, well formed and what its name says"
    scope: ClassVar[Literal["tree", "release"]] = "tree"
    headline: ClassVar[tuple[str, ...]] = ("upstream", "tensors")

    def run(self, context: CheckContext[IntegrityLimits]) -> Observation:
        """Look at every file of one tree. Raises `CannotDecideError` when one can no longer be read."""
        try:
            return self._observe(context)
        except OSError as error:
            raise CannotDecideError(
                f"{context.tree.root}: {error}", remedy="was the folder changed meanwhile?"
            ) from error

    def _observe(self, context: CheckContext[IntegrityLimits]) -> Observation:
        tree, limits = context.tree, context.limits
        upstream = context.source.upstream if context.role == "source" else None
        findings = list(_path_problems(tree))
        if upstream is not None:
            findings += _compare(tree, upstream)
        findings += _stray(tree, upstream)
        kinds, headers = _read(context)
        for entry in tree.files:
            findings += _content(tree, entry, kinds[entry.path], limits)
        findings += _structure(tree, headers)
        findings += _config(tree, kinds, headers)
        rows = [
            {"path": e.path, "size_bytes": e.size_bytes, "sha256": e.sha256, "content": kinds[e.path]}
            for e in tree.files
        ]
        context.evidence.keep(f"files-{context.role}.json", (json.dumps(rows, indent=1) + "\n").encode())
        return Observation(
            coverage=(Coverage(unit="files", seen=len(tree.files), total=len(tree.files) + len(tree.problems)),),
            findings=_capped(findings),
            undecided=tuple(_undecided(context, kinds)),
            measurements=_measurements(tree, headers, upstream),
            warnings=tuple(_warnings(context, headers)),
            tools={"huggingface_hub": version("huggingface_hub")} if upstream is not None else {},
        )


CHECK = Integrity()


def _finding(rule: str, message: str, *, path: str | None, remedy: str | None = None) -> Finding:
    return Finding(rule=f"{ID}.{rule}", message=message, remedy=remedy or _REMEDIES[rule], path=path)


def _path_problems(tree: Tree) -> Iterator[Finding]:
    for problem in tree.problems:
        yield _finding(problem.kind, problem.detail, path=problem.path, remedy=_REMEDIES["path"])


def _compare(tree: Tree, upstream: Upstream) -> Iterator[Finding]:
    where = f"{upstream.repo_id}@{upstream.commit[:12]}"
    for path, listed in sorted(upstream.files.items()):
        entry = tree.by_path.get(path)
        if entry is None:
            yield _finding("upstream-missing", f"{where} has this file, the repository under test has not", path=path)
            continue
        found = _digest(tree, entry, listed)
        if entry.size_bytes != listed.size_bytes or found != listed.digest:
            kind = "sha256" if listed.sha256 else "git blob sha1"
            got = f"{kind} {found} ({entry.size_bytes} bytes)"
            message = f"got {got}, {where} lists {listed.digest} ({listed.size_bytes} bytes)"
            yield _finding("upstream-changed", message, path=path)
    for entry in tree.files:
        if entry.path not in upstream.files:
            yield _finding("upstream-extra", f"{where} has no such file", path=entry.path)


def _digest(tree: Tree, entry: FileEntry, listed: UpstreamFile) -> str:
    return entry.sha256 if listed.sha256 is not None else file_digest(tree.location(entry.path), listed)


def _stray(tree: Tree, upstream: Upstream | None) -> Iterator[Finding]:
    """Hidden folders and bytecode that an upstream does not list: caches and repositories that tools leave behind."""
    listed = upstream.files if upstream is not None else {}
    for entry in tree.files:
        folders = entry.path.split("/")[:-1]
        stray = [folder for folder in folders if folder.startswith(".") or folder == "__pycache__"]
        if stray and entry.path not in listed:
            yield _finding("stray-file", f"lies in the folder {stray[0]}", path=entry.path)


def _read(context: CheckContext[IntegrityLimits]) -> tuple[dict[str, ContentKind], dict[str, Header]]:
    kinds: dict[str, ContentKind] = {}
    headers: dict[str, Header] = {}
    with context.progress.task("read structure", total=len(context.tree.files), unit="files") as task:
        for entry in context.tree.files:
            location = context.tree.location(entry.path)
            kinds[entry.path] = identify(location)
            named = entry.path.endswith(".safetensors") and kinds[entry.path] in (ContentKind.BINARY, ContentKind.EMPTY)
            if named or kinds[entry.path] is ContentKind.SAFETENSORS:
                headers[entry.path] = read_header(location)
            task.advance()
    return kinds, headers


def _content(tree: Tree, entry: FileEntry, kind: ContentKind, limits: IntegrityLimits) -> Iterator[Finding]:
    path, suffix = entry.path, PurePosixPath(entry.path.lower()).suffix
    allowed = ", ".join(limits.formats)
    if kind is ContentKind.LFS_POINTER:
        with tree.location(path).open("rb") as stream:
            pointer = lfs_pointer(stream.read(WINDOW_BYTES))
        for_what = f" for {pointer[1]} bytes with sha256 {pointer[0]}" if pointer else ""
        yield _finding("lfs-pointer", f"a Git LFS pointer{for_what}, not the file itself", path=path)
    elif kind in SERIALIZED | ARCHIVES or kind is ContentKind.EXECUTABLE:
        yield _finding("format", f"is {kind} by content; allowed weight formats are {allowed}", path=path)
    elif suffix in _OTHER_WEIGHTS:
        yield _finding("format", f"a {suffix} file ({kind}); allowed weight formats are {allowed}", path=path)
    elif kind.name.lower() in ("safetensors", "gguf") and kind.name.lower() not in limits.formats:
        yield _finding("format", f"is {kind}; allowed weight formats are {allowed}", path=path)
    elif (wanted := _wanted(suffix, kind)) is not None:
        yield _finding("disguised", f"is {kind} by content, wanted {wanted}", path=path)


def _wanted(suffix: str, kind: ContentKind) -> str | None:
    """What the name promises, when the content is something else."""
    match suffix:
        case ".safetensors":
            broken = kind in (ContentKind.SAFETENSORS, ContentKind.BINARY, ContentKind.EMPTY)
            return None if broken else "safetensors"
        case ".gguf":
            return None if kind is ContentKind.GGUF else "GGUF"
        case ".json":
            return None if kind is ContentKind.JSON else "JSON"
        case _ if suffix in _TEXTUAL and kind is ContentKind.HTML:
            return "the file itself, not a web page"
        case _:
            return None


def _structure(tree: Tree, headers: Mapping[str, Header]) -> Iterator[Finding]:
    for path, header in headers.items():
        for problem in header.problems:
            yield _finding("safetensors", f"{problem.kind}: {problem.detail}", path=path)
    for index in check_indexes(tree, headers):
        yield _finding(f"index-{index.kind}", index.detail, path=index.path, remedy=_REMEDIES["index"])


def _config(tree: Tree, kinds: Mapping[str, ContentKind], headers: Mapping[str, Header]) -> Iterator[Finding]:
    found = set(kinds.values())
    if not found & {ContentKind.SAFETENSORS, ContentKind.GGUF}:
        yield _finding("no-weights", "no file holds safetensors or GGUF weights", path=None)
    if CONFIG_NAME not in tree.by_path:
        if headers or ContentKind.GGUF not in found:
            yield _finding("no-config", f"there is no {CONFIG_NAME}", path=None)
        return
    try:
        config = load_config(tree)
    except InputError as error:
        yield _finding("config", error.message, path=CONFIG_NAME, remedy=error.remedy)
        return
    for problem in check_weights(config, headers):
        yield _finding(problem.kind, problem.detail, path=problem.path, remedy=_REMEDIES["weights"])


def _undecided(context: CheckContext[IntegrityLimits], kinds: Mapping[str, ContentKind]) -> Iterator[Undecided]:
    if context.role == "source" and context.source.upstream is None and context.limits.require_upstream:
        yield Undecided(
            reason="no official repository was named to compare with, and the policy requires one",
            remedy="write source.upstream and source.upstream_revision in the release file, or admit ORG/NAME@COMMIT",
        )
    for path, kind in kinds.items():
        if kind is ContentKind.GGUF and "gguf" in context.limits.formats:
            yield Undecided(
                reason=f"{path}: the structure of GGUF files is not read by this version",
                remedy="serve safetensors weights",
            )


def _warnings(context: CheckContext[IntegrityLimits], headers: Mapping[str, Header]) -> Iterator[str]:
    if context.role == "source" and context.source.upstream is None:
        yield "no official repository to compare with: the files are whole, but nobody says they are the right ones"
    if context.role == "served" and context.tree.digest != context.source.tree.digest:
        yield "the served tree was made from the source: its bytes have no upstream"
    if not headers:
        yield "no safetensors file: no tensor was counted"


def _measurements(tree: Tree, headers: Mapping[str, Header], upstream: Upstream | None) -> tuple[Measurement, ...]:
    tensors = [tensor for header in headers.values() for tensor in header.tensors]
    shares = ", ".join(f"{dtype} {size}" for dtype, size in dtype_shares(headers).items())
    return (
        Measurement(name="upstream", value=f"{upstream.repo_id}@{upstream.commit}" if upstream is not None else "none"),
        Measurement(name="tensors", value=len(tensors)),
        Measurement(name="files", value=len(tree.files)),
        Measurement(name="bytes", value=tree.size_bytes, unit="bytes"),
        Measurement(
            name="parameters",
            value=sum(tensor.elements for tensor in tensors),
            parameters={"counted": "stored elements; packed weights count once per word"},
        ),
        Measurement(
            name="tensor-bytes",
            value=sum(tensor.size_bytes for tensor in tensors),
            unit="bytes",
            parameters={"by_dtype": shares},
        ),
    )


def _capped(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings, those of one rule listed up to a limit and then counted."""
    counts: Counter[str] = Counter()
    kept: list[Finding] = []
    last: dict[str, Finding] = {}
    for finding in findings:
        counts[finding.rule] += 1
        last[finding.rule] = finding
        if counts[finding.rule] <= MAX_PER_RULE:
            kept.append(finding)
    for rule, count in counts.items():
        if count > MAX_PER_RULE:
            message = f"{count - MAX_PER_RULE} more findings of this rule"
            kept.append(Finding(rule=rule, message=message, remedy=last[rule].remedy))
    return tuple(kept)
