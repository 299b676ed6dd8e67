"""integrity: every byte is what the official repository says, and the files are whole and what their names say.

With an upstream listing (a Hub id, or a folder's `upstream:`) each file is held against its LFS sha256 or git blob
sha1, and nothing may be missing or extra. With or without, each file is known by its content; safetensors and GGUF
files, their index and config.json agree; tensors are those of the architecture, and their numbers can be weights. No
file is left out by any rule.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import version
from itertools import chain
from typing import ClassVar, Literal

from modelctl.checks.base import CheckContext, Coverage, Finding, Observation, Undecided
from modelctl.checks.integrity_findings import INDEX_REMEDY, PATH_REMEDY, SPLIT_REMEDY, capped, finding
from modelctl.checks.integrity_reading import Seen, measurements, read_files
from modelctl.checks.limits import IntegrityLimits
from modelctl.errors import CannotDecideError, InputError
from modelctl.model.adapter import check_adapters
from modelctl.model.architecture import compare_architecture
from modelctl.model.config import CONFIG_NAME, load_config
from modelctl.model.content import ContentKind
from modelctl.model.files import (
    WeightFormat,
    check_content,
    check_extent,
    check_stray,
    compare_upstream,
    is_pytorch,
)
from modelctl.model.gguf_split import check_splits
from modelctl.model.kinds import ADAPTER_WEIGHTS, kinds_of
from modelctl.model.listing import Upstream
from modelctl.model.number_rules import check_numbers, weights_of
from modelctl.model.numbers import read_numbers
from modelctl.model.provenance import provenance_problems
from modelctl.model.shards import check_indexes
from modelctl.model.tied_head import check_tied_head
from modelctl.model.tree import Tree
from modelctl.model.weights import check_dtypes, check_weights


class Integrity:
    """The check."""

    id: ClassVar[str] = "integrity"
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
        seen = read_files(tree, progress=context.progress, formats=limits.formats)
        findings = capped(
            chain(
                _provenance(context),
                _files(tree, limits, upstream, seen),
                _structure(tree, seen, limits.dtypes),
                _config(tree, seen, limits.formats),
                _numbers(context, seen),
            )
        )
        rows = [
            {"path": e.path, "size_bytes": e.size_bytes, "sha256": e.sha256, "content": seen.contents[e.path]}
            for e in tree.files
        ]
        context.evidence.keep(f"files-{context.role}.json", (json.dumps(rows, indent=1) + "\n").encode())
        return Observation(
            coverage=tuple(_coverage(context, seen)),
            findings=findings,
            undecided=tuple(_undecided(context)),
            measurements=measurements(tree, seen, upstream),
            warnings=tuple(_warnings(context, seen)),
            tools={"huggingface_hub": version("huggingface_hub")} if upstream is not None else {},
        )


CHECK = Integrity()


def _provenance(context: CheckContext[IntegrityLimits]) -> Iterator[Finding]:
    if context.role == "source":
        limits = context.limits
        for item in provenance_problems(context.source, require_pinned=limits.require_pinned, owners=limits.owners):
            yield finding(item.kind, item.detail, path=None, remedy=item.remedy)


def _files(tree: Tree, limits: IntegrityLimits, upstream: Upstream | None, seen: Seen) -> Iterator[Finding]:
    for item in tree.problems:
        yield finding(item.kind, item.detail, path=item.path, remedy=PATH_REMEDY)
    for problem in chain(
        compare_upstream(tree, upstream) if upstream is not None else (),
        check_stray(tree, upstream),
        check_content(tree, seen.contents, limits.formats),
        check_extent(tree, max_files=limits.max_files, max_bytes=limits.max_bytes),
    ):
        yield finding(problem.kind, problem.detail, path=problem.path)


def _structure(tree: Tree, seen: Seen, dtypes: tuple[str, ...]) -> Iterator[Finding]:
    for path, header in seen.headers.items():
        for problem in header.problems:
            yield finding("safetensors", f"{problem.kind}: {problem.detail}", path=path)
    for path, found in seen.ggufs.items():
        for detail in found.problems:
            yield finding("gguf", detail, path=path)
    for part in check_splits(seen.ggufs):
        yield finding(f"gguf-{part.kind}", part.detail, path=part.path, remedy=SPLIT_REMEDY)
    for index in check_indexes(tree, seen.headers):
        yield finding(f"index-{index.kind}", index.detail, path=index.path, remedy=INDEX_REMEDY)
    for weights in (*check_adapters(tree, seen.headers), *check_dtypes(seen.headers, dtypes)):
        yield finding(weights.kind, weights.detail, path=weights.path)


def _config(tree: Tree, seen: Seen, formats: tuple[WeightFormat, ...]) -> Iterator[Finding]:
    """config.json and what the weights say to it; fills in `config`, `kinds` and `comparison`."""
    found = set(seen.contents.values())
    pickled = "pytorch" in formats and any(is_pytorch(path, kind) for path, kind in seen.contents.items())
    if not pickled and not found & {ContentKind.SAFETENSORS, ContentKind.GGUF}:
        yield finding("no-weights", f"no file holds weights of an allowed format ({', '.join(formats)})", path=None)
    try:
        seen.config = load_config(tree) if CONFIG_NAME in tree.by_path else None
        seen.kinds = kinds_of(tree, seen.config)
        if seen.config is not None:
            seen.comparison = compare_architecture(seen.config, seen.headers)
    except InputError as error:
        seen.kinds = kinds_of(tree, seen.config)
        yield finding("config", error.message, path=CONFIG_NAME, remedy=error.remedy)
    if CONFIG_NAME not in tree.by_path:
        adapter = any(kind.name == "lora-adapter" for kind in seen.kinds)
        own = [path for path in seen.headers if not (adapter and path.endswith(ADAPTER_WEIGHTS[0]))]
        if own or not (adapter or ContentKind.GGUF in found):
            yield finding("no-config", f"there is no {CONFIG_NAME}", path=None)
    if seen.config is not None:
        for problem in (*check_weights(seen.config, seen.headers), *seen.comparison.problems):
            yield finding(problem.kind, problem.detail, path=problem.path)


def _numbers(context: CheckContext[IntegrityLimits], seen: Seen) -> Iterator[Finding]:
    whole = {path: header for path, header in seen.headers.items() if not header.problems}
    whole |= {path: weights_of(found) for path, found in seen.ggufs.items() if not found.problems}
    if not context.limits.numbers or not whole:
        return
    total = sum(tensor.size_bytes for header in whole.values() for tensor in header.tensors)
    family = seen.comparison.family
    with context.progress.task("read weights", total=total, unit="bytes") as task:
        for path, header in whole.items():
            problems = check_numbers(
                path,
                read_numbers(context.tree.location(path), header, advance=task.advance),
                norms_multiply=family is not None and not family.centred_norms and path in seen.headers,
                may_be_constant=context.limits.may_be_constant,
            )
            for problem in problems:
                yield finding(problem.kind, problem.detail, path=problem.path)
            seen.numbers_read += len(header.tensors)
    if seen.config is not None:
        stored = {path: header for path, header in seen.headers.items() if path in whole}
        for problem in check_tied_head(seen.config, family, stored, context.tree.location):
            yield finding(problem.kind, problem.detail, path=problem.path)


def _coverage(context: CheckContext[IntegrityLimits], seen: Seen) -> Iterator[Coverage]:
    tree = context.tree
    yield Coverage(unit="files", seen=len(tree.files), total=len(tree.files) + len(tree.problems))
    total = sum(len(header.tensors) for header in seen.headers.values())
    total += sum(len(found.tensors) for found in seen.ggufs.values())
    excluded = []
    if not context.limits.numbers:
        excluded.append("the weights as numbers: the policy sets integrity.numbers to false")
    pickles = [path for path, kind in seen.contents.items() if is_pytorch(path, kind)]
    if pickles and "pytorch" in context.limits.formats:
        excluded.append(f"the tensors of {', '.join(sorted(pickles)[:5])}: pickles are never loaded, only hashed")
    if total or excluded:
        yield Coverage(unit="tensors", seen=seen.numbers_read, total=total, excluded=tuple(excluded))


def _undecided(context: CheckContext[IntegrityLimits]) -> Iterator[Undecided]:
    if context.role == "source" and context.source.upstream is None and context.limits.require_upstream:
        yield Undecided(
            reason="no official repository was named to compare with, and the policy requires one",
            remedy="write source.upstream and source.upstream_revision in the release file, or admit ORG/NAME@COMMIT",
        )


def _warnings(context: CheckContext[IntegrityLimits], seen: Seen) -> Iterator[str]:
    if context.role == "source" and context.source.upstream is None:
        yield "no official repository to compare with: the files are whole, but nobody says they are the right ones"
    if context.role == "served" and context.tree.digest != context.source.tree.digest:
        yield "the served tree was made from the source: its bytes have no upstream"
    if not seen.headers:
        yield "no safetensors file: no tensor was compared with an architecture"
    yield from seen.comparison.warnings
