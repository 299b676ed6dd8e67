"""Do an older form of a tokenizer and tokenizer.json give a corpus the same ids? One judgement for every form."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from pathlib import Path

from modelctl.tokenization.corpus import corpus
from modelctl.tokenization.report import Ledger, around, shown


def compare_texts(
    folder: Path,
    name: str,
    encode: Callable[[Sequence[str]], list[list[int]] | None],
    *,
    without: Container[str],
    figure: str,
    cure: str,
    max_differing_texts: int,
    seen: Ledger,
) -> None:
    """Encode the corpus, less the groups `without`, by both and say what differs.

    `encode` gives the older form's ids in tokenizer.json's numbers, or None when it has said itself why it can't. A
    tokenizer.json that does not load is left to its own trial.
    """
    from tokenizers import Tokenizer

    try:
        fast = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception:  # noqa: BLE001 - the trial of tokenizer.json itself words this
        return
    fast.no_truncation()
    fast.no_padding()
    texts = [text for group, texts in corpus().items() if group not in without for text in texts]
    theirs = encode(texts)
    if theirs is None:
        return
    ours = [one.ids for one in fast.encode_batch_fast(texts, add_special_tokens=False)]
    unlike = [at for at in range(len(texts)) if theirs[at] != ours[at]]
    seen.figure(figure, len(unlike), of=len(texts), file=name)
    if not unlike:
        return
    at = unlike[0]
    words = (
        f"{name} and tokenizer.json give different ids for {len(unlike)} of {len(texts)} texts; {shown(texts[at])}: "
        f"{around(theirs[at], ours[at])}"
    )
    if len(unlike) > max_differing_texts:
        seen.problem("variants-differ", words, remedy=cure, path=name)
    else:
        seen.warnings.append(f"{words}; the policy allows {max_differing_texts}")
