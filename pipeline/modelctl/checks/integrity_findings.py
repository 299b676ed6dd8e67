"""The findings of integrity: for each rule how to mend it, and no more of one than a person reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from modelctl.checks.base import Finding

ID = "integrity"
MAX_PER_RULE = 20
"""Findings of one rule that are listed one by one; the rest is counted."""

_WHOLE = "take the file from its source again"
_RESTORE = "take the file from the official repository again: hf download ORG/NAME FILE --revision COMMIT"
_TOGETHER = "take config.json and the weights from one commit, or save both together with save_pretrained"
_NUMBERS = "take the weights from their source again; if they are so there, the training or the conversion failed"
PATH_REMEDY = "replace it with a plain file, or delete it"
INDEX_REMEDY = "take the index and all its parts from one commit, or write both anew with save_pretrained"
SPLIT_REMEDY = "take all parts from one commit, or split the model anew: llama-gguf-split"
_REMEDIES: Mapping[str, str] = {
    "upstream-changed": "take the file from the official repository at the pinned commit, or pin the one that has it",
    "upstream-missing": "take the file from the official repository at the pinned commit",
    "upstream-extra": "delete the file, or pin a commit that has it",
    "stray-file": "delete the folder: no engine needs it, and programs may run what is in it",
    "lfs-pointer": "run git lfs pull, or download the file with hf download",
    "disguised": _RESTORE,
    "format": "delete the file, or convert it to safetensors; the policy's integrity.formats names what is allowed",
    "sparse": _RESTORE,
    "too-many-files": "name the model's own folder, or raise integrity.max_files in the policy",
    "too-large": "name the model's own folder, or raise integrity.max_bytes in the policy",
    "safetensors": f"{_WHOLE}, or write it anew with safetensors.save_file",
    "gguf": f"{_WHOLE}, or convert the model anew",
    "no-weights": "put the *.safetensors files beside config.json",
    "no-config": "put config.json beside the weights",
    "config": "mend config.json or take it from the official repository",
    "tied-head": f"{_TOGETHER}; or set tie_word_embeddings to false, or delete the head",
    "nan": _NUMBERS,
    "inf": _NUMBERS,
    "all-zero": f"{_NUMBERS}; integrity.may_be_constant in the policy names tensors that are meant to be so",
    "constant": f"{_NUMBERS}; integrity.may_be_constant in the policy names tensors that are meant to be so",
}


def finding(rule: str, message: str, *, path: str | None, remedy: str | None = None) -> Finding:
    """A finding of a rule; without a remedy of its own, weights and config.json are to be taken together."""
    return Finding(rule=f"{ID}.{rule}", message=message, remedy=remedy or _REMEDIES.get(rule, _TOGETHER), path=path)


def capped(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings, those of one rule listed up to a limit and then counted."""
    counts: Counter[str] = Counter()
    kept: list[Finding] = []
    last: dict[str, Finding] = {}
    for item in findings:
        counts[item.rule] += 1
        last[item.rule] = item
        if counts[item.rule] <= MAX_PER_RULE:
            kept.append(item)
    for rule, count in counts.items():
        if count > MAX_PER_RULE:
            message = f"{count - MAX_PER_RULE} more findings of this rule"
            kept.append(Finding(rule=rule, message=message, remedy=last[rule].remedy))
    return tuple(kept)
