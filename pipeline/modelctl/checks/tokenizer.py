"""The tokenizer check: ids fit the embedding, text comes back, all copies agree, and chat ends where the files say.

Every file is read, and everything is loaded and rendered, in an isolated child; this module only words what came back.
"""

from __future__ import annotations

import importlib.util
from typing import ClassVar, Literal

from pydantic import ValidationError

from modelctl import worker
from modelctl.checks.base import CheckContext, Coverage, Finding, Measurement, Observation, Undecided
from modelctl.checks.limits import TokenizerLimits
from modelctl.errors import CannotDecideError, DoesNotApplyError
from modelctl.model.kinds import is_adapter, recognise
from modelctl.model.tree import Tree
from modelctl.tokenization.report import Report
from modelctl.tokenization.tokenizer_files import OLDER_FILES
from modelctl.tokenization.worker import Request

VOCABULARY_FILES = ("tokenizer.json", "vocab.json", *OLDER_FILES)
"""A tree without any of these has no tokenizer (GGUF files carry their own, which other programs read)."""


class TokenizerCheck:
    """See the module's words."""

    id: ClassVar[str] = "tokenizer"
    decides: ClassVar[str] = (
        "token ids fit the embedding, text comes back from its ids, and special tokens and chat templates agree "
        "wherever they stand"
    )
    scope: ClassVar[Literal["tree", "release"]] = "tree"
    headline: ClassVar[tuple[str, ...]] = ("embedding-rows", "vocabulary")

    def run(self, context: CheckContext[TokenizerLimits]) -> Observation:
        """Examine the tree in a child.

        Raises `CannotDecideError` when transformers is missing or the child fails, `DoesNotApplyError` for an adapter
        that brings no tokenizer.
        """
        for library in ("tokenizers", "transformers"):
            if importlib.util.find_spec(library) is None:
                raise CannotDecideError(
                    f"{library} is not installed, and the tokenizer cannot be judged without it",
                    remedy="pip install 'modelctl[tokenizer]'",
                )
        names = [entry.path for entry in context.tree.files]
        if not any(name in VOCABULARY_FILES for name in names):
            return _no_tokenizer(context.tree)
        limits = context.limits
        original = _original(context)
        request = Request(
            root=str(context.tree.root),
            files=tuple(names),
            agreeing_roles=limits.agreeing_roles,
            max_lossy_texts=limits.max_lossy_texts if limits.round_trip else None,
            max_differing_texts=limits.max_differing_texts,
            more_bytes=limits.more_text_mib << 20,
            baseline=str(original.root) if original is not None else None,
            chat_template_required=limits.chat_template_required,
            template_time_limit_s=limits.template_time_limit_s,
            template_memory_limit_bytes=limits.template_memory_limit_mib << 20,
            load_time_limit_s=limits.load_time_limit_s,
            load_memory_limit_bytes=limits.load_memory_limit_mib << 20,
        )
        with context.progress.task("try the tokenizer", total=None, unit="documents") as task:
            answer = worker.call(
                context.resources.sandbox,
                "tokenization.worker",
                request.model_dump(mode="json"),
                readable=[*context.tree.folders, *(original.folders if original is not None else ())],
                env={"TOKENIZERS_PARALLELISM": "true"},  # no fork follows its use
                time_limit_s=limits.time_limit_s,
                memory_limit_bytes=limits.load_memory_limit_mib << 20,
                task=task,
            )
        try:
            report = Report.model_validate(answer)
        except ValidationError as error:
            raise CannotDecideError(f"the tokenizer's child answered nonsense: {error}") from error
        return _observation(report)


def _original(context: CheckContext[TokenizerLimits]) -> Tree | None:
    """What the tree was made from: the release's baseline, or the source of a served tree that modelctl made."""
    if context.baseline is not None:
        return context.baseline.tree
    return context.source.tree if context.role == "served" and context.quantization is not None else None


def _no_tokenizer(tree: Tree) -> Observation:
    if is_adapter(recognise(tree)):
        raise DoesNotApplyError("an adapter without a tokenizer of its own: it is used with that of its base")
    files = len(tree.files)
    finding = Finding(
        rule="tokenizer.missing",
        message=f"none of {', '.join(VOCABULARY_FILES)} is at the root of the repository: nothing turns text into ids",
        remedy="publish tokenizer.json and tokenizer_config.json with the weights",
    )
    return Observation(coverage=(Coverage(unit="files", seen=files, total=files),), findings=(finding,))


def _observation(report: Report) -> Observation:
    coverage = [
        Coverage(unit="tokenizer files", seen=len(report.files), total=report.files_total, excluded=report.excluded)
    ]
    coverage.append(Coverage(unit="texts", seen=report.texts, total=report.texts_total))
    if report.templates_total:
        coverage.append(Coverage(unit="chat templates", seen=report.templates, total=report.templates_total))
    return Observation(
        coverage=tuple(coverage),
        findings=tuple(
            Finding(rule=f"tokenizer.{item.rule}", message=item.message, remedy=item.remedy, path=item.path)
            for item in report.problems
        ),
        undecided=tuple(Undecided(reason=item.reason, remedy=item.remedy) for item in report.doubts),
        measurements=tuple(
            Measurement(name=item.name, value=item.value, unit=item.unit, parameters=item.parameters)
            for item in report.figures
        ),
        warnings=report.warnings,
        tools=report.tools,
    )


CHECK = TokenizerCheck()
