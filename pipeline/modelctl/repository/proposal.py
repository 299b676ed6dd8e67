"""The release file that `modelctl new` writes: what can be read of a model filled in, what a person decides marked.

Nothing is downloaded but a model card, `config.json` and an index; the weights stay where they are.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from modelctl.errors import CannotDecideError, InputError
from modelctl.files import write_whole
from modelctl.model import dvc_pointer
from modelctl.model.card import parse_card
from modelctl.model.release import load_release, parse_release_id, release_folder
from modelctl.model.source_names import S3_SCHEME
from modelctl.registry.card import Card, card_of
from modelctl.settings import Workspace
from modelctl.sizing.facts import ModelFacts
from modelctl.sizing.gpus import find_gpu
from modelctl.sizing.peek import FolderPeek, peek
from modelctl.sizing.plan import Demand, Plan, best_plan

DECIDE = "# decide:"
_PLAIN = re.compile(r"[A-Za-z./][\w./-]*")
"""What YAML takes for a text without quotes."""
LONGEST_STATED = 8192
"""Tokens that a proposal states at most by itself: a million are rarely what a team means to serve, and to test."""


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What a person wants to propose."""

    name: str
    version: str
    origin: str
    """A folder, `ORG/NAME[@REVISION]`, an S3 prefix or a DVC pointer."""
    bits: int | None = None
    gpu: str | None = None
    policy: str = "production"


@dataclass(frozen=True, kw_only=True)
class Known:
    """What could be read of the origin."""

    source: dict[str, str]
    card: Card = field(default_factory=Card)
    facts: ModelFacts | None = None
    unread: str | None = None
    """Why the model's facts could not be read."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A release file, written or not."""

    path: Path
    text: str

    @property
    def open_questions(self) -> tuple[str, ...]:
        """What the file marks for a person to decide."""
        return tuple(line.partition(DECIDE)[2].strip() for line in self.text.splitlines() if DECIDE in line)


def propose(wish: Wish, workspace: Workspace, *, dry_run: bool = False) -> Proposal:
    """Write `registry/NAME/VERSION/release.yaml`; one that is there is never touched.

    Raises `InputError` for a malformed name, a version that exists and an origin that is none, `CannotDecideError` when
    the Hub can't be asked.
    """
    parse_release_id(f"{wish.name}@{wish.version}")
    path = release_folder(workspace.root, wish.name, wish.version) / "release.yaml"
    if path.exists():
        raise InputError(f"{path} is there already", remedy="give another --version; a release never changes")
    known = read_origin(wish.origin, workspace.root)
    plan = _plan(wish, known)
    proposal = Proposal(path=path, text="".join(f"{line}\n" for line in _lines(wish, known, plan)))
    if not dry_run:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, proposal.text)
        load_release(path)
    return proposal


def read_origin(origin: str, root: Path) -> Known:
    """Where the model comes from, and what its card and headers say. Raises `InputError`, `CannotDecideError`."""
    if origin.startswith(S3_SCHEME):
        return Known(source={"s3": origin}, unread="an S3 prefix is read by the admission alone")
    folder = Path(origin).expanduser()
    if folder.suffix == dvc_pointer.SUFFIX and folder.is_file():
        return Known(source={"dvc": _relative(folder, root)}, unread="a DVC pointer is followed by the admission alone")
    model = peek(origin, Path.cwd())
    if isinstance(model, FolderPeek):
        source = {"folder": _relative(model.folder, root)}
    else:
        source = {"hub": model.upstream.repo_id, "revision": model.upstream.commit}
    card, facts, unread = Card(), None, None
    content = model.card()
    try:
        card = card_of(*parse_card(content))
        facts = model.facts()
    except (InputError, CannotDecideError) as error:  # an adapter, a GGUF file, a broken card: the admission says more
        unread = error.message
    return Known(source=source, card=card, facts=facts, unread=unread)


def _relative(place: Path, root: Path) -> str:
    return os.path.relpath(place.resolve(), root.resolve())


def _plan(wish: Wish, known: Known) -> Plan | None:
    if wish.gpu is None:
        return None
    if known.facts is None:
        raise InputError(f"--gpu: {wish.origin}: {known.unread}", remedy="leave --gpu out, and write serving by hand")
    plan = best_plan(known.facts, find_gpu(wish.gpu), Demand(length=_length(known)), most=8)
    if not plan.fits:
        raise InputError(f"--gpu {wish.gpu}: {plan.why_not}", remedy=f"modelctl size {wish.origin} says what would do")
    return plan


def _length(known: Known) -> int | None:
    stated = known.facts.config.max_position_embeddings if known.facts else None
    return min(stated, LONGEST_STATED) if stated else None


def _lines(wish: Wish, known: Known, plan: Plan | None) -> Iterator[str]:
    yield "apiVersion: modelctl.dev/v1"
    yield "kind: ModelRelease"
    yield "metadata:"
    yield f"  name: {wish.name}"
    yield f"  version: {wish.version}"
    yield "spec:"
    if known.unread:
        yield f"  # not read: {_one_line(known.unread)}"
    yield "  source:"
    for key, value in known.source.items():
        yield f"    {key}: {_scalar(value)}"
    if "hub" not in known.source:
        yield f"    {DECIDE} the official repository that these files must equal, if there is one"
        yield "    # upstream: ORG/MODEL"
        yield "    # upstream_revision: its commit, 40 hex digits"
    yield from _license(known.card)
    yield from _compared(wish, known)
    yield "  serving:"
    yield "    engine: vllm"
    yield f"    {DECIDE} the engine's image by digest; a rollout needs it"
    yield "    # image: vllm/vllm-openai@sha256:…"
    yield from _length_lines(known)
    yield f"    max_num_seqs: {min(plan.streams, 128) if plan else 128} {DECIDE} streams at a time"
    if plan:
        yield f"    tensor_parallel_size: {plan.ranks}"
        yield f"    gpu: {{count: {plan.ranks}}} # {plan.gpu.name}, as modelctl size has it"
    else:
        yield f"    gpu: {{count: 1}} {DECIDE} GPUs of a replica; modelctl size {_one_line(wish.origin)} counts them"
    yield f"  policy: {wish.policy}"


def _license(card: Card) -> Iterator[str]:
    names = [name for name in card.licenses if name != "other"]
    if len(names) == 1:
        yield f"  license: {_scalar(names[0])} # as the model card says"
    else:
        said = f"the card names {', '.join(map(_one_line, names))}" if names else "no model card names one"
        yield f"  {DECIDE} the licence; {said}"
        yield "  # license: apache-2.0"


def _compared(wish: Wish, known: Known) -> Iterator[str]:
    """What makes or judges the served weights: a recipe, a baseline, a base model."""
    base = next(iter(known.card.base_models), "ORG/MODEL")
    quantised = known.facts is not None and known.facts.config.quantization is not None
    if wish.bits is not None:
        if quantised:
            raise InputError("--quantize: these weights are quantised already", remedy="propose the original instead")
        yield f"  quantization: {{method: gptq, bits: {wish.bits}, group_size: 128}}"
    if quantised or known.card.base_models:
        what = "the original of these quantised weights" if quantised else "the model that this one was made from"
        yield f"  {DECIDE} {what}, at a commit; answers are held against its own"
        yield f"  # baseline: {{hub: {_one_line(base)}, revision: …}}"


def _length_lines(known: Known) -> Iterator[str]:
    stated = known.facts.config.max_position_embeddings if known.facts else None
    wanted = _length(known)
    if wanted is None:
        yield f"    {DECIDE} the longest prompt and answer together, in tokens"
        yield "    # max_model_len: 8192"
    elif stated and stated > wanted:
        yield f"    max_model_len: {wanted} {DECIDE} up to {stated}, which config.json states; all of it is tested"
    else:
        yield f"    max_model_len: {wanted} # as config.json states"


def _scalar(text: str) -> str:
    return (
        json.dumps(text, ensure_ascii=False)
        if not text.replace("/", "").replace("-", "").replace(".", "").isalnum()
        else text
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())
