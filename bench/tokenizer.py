"""Text through the tokenizer check, beside `tokenizers` alone that encodes and decodes the same text."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path

from comparison import Row, beside, medians, quietly
from modelctl.checks.limits import TokenizerLimits
from modelctl.model.tree import scan_tree
from modelctl.tokenization.corpus import more_texts

LIMIT = 2.0
_CHECK = """
import json, sys
from modelctl.tokenization.worker import Request, examine
report = examine(Request.model_validate_json(open(sys.argv[1]).read()))
sys.exit(bool(report.problems or report.doubts))
"""
_ALONE = """
import sys
from tokenizers import Tokenizer
from modelctl.tokenization.corpus import more_texts
texts = list(more_texts(int(sys.argv[2])))
tokenizer = Tokenizer.from_file(sys.argv[1])
ids = [one.ids for one in tokenizer.encode_batch(texts, add_special_tokens=False)]
tokenizer.decode_batch(ids, skip_special_tokens=False)
"""


def rows(folder: Path, *, rounds: int, size_mib: int = 10) -> list[Row]:
    """Whole processes: start, load, encode, decode; ours also reads the files, tries two libraries and compares."""
    model = write_model(folder / "tokenizer")
    limits = TokenizerLimits(more_text_mib=size_mib)
    request = {
        "root": str(model),
        "files": [entry.path for entry in scan_tree(model).files],
        "agreeing_roles": limits.agreeing_roles,
        "max_lossy_texts": limits.max_lossy_texts,
        "max_differing_texts": limits.max_differing_texts,
        "more_bytes": limits.more_text_mib << 20,
        "baseline": None,
        "chat_template_required": False,
        "template_time_limit_s": limits.template_time_limit_s,
        "template_memory_limit_bytes": limits.template_memory_limit_mib << 20,
        "load_time_limit_s": 1800,
        "load_memory_limit_bytes": limits.load_memory_limit_mib << 20,
    }
    (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
    run, alone = (sys.executable, "-I", "-c", _CHECK), (sys.executable, "-I", "-c", _ALONE)
    times = medians(
        {
            "modelctl": quietly(*run, folder / "request.json"),
            "tokenizers": quietly(*alone, model / "tokenizer.json", str(size_mib << 20)),
        },
        rounds=rounds,
    )
    return beside(
        f"{size_mib} MiB of text, tokenizer", times, "modelctl", at_most={"tokenizers": LIMIT},
        rounds=rounds, tokenizers=version("tokenizers"), transformers=version("transformers"),
    )  # fmt: skip


def write_model(folder: Path) -> Path:
    """tokenizer.json on bytes, trained on some of the text, and the files that say what its ids are."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    folder.mkdir(parents=True)
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=4000, special_tokens=["<|end|>"], show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )  # fmt: skip
    made.train_from_iterator(more_texts(1 << 19), trainer)
    made.save(str(folder / "tokenizer.json"))
    end = {"eos_token_id": 0, "vocab_size": made.get_vocab_size(), "architectures": ["LlamaForCausalLM"]}
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", **end}), encoding="utf-8")
    settings = {"eos_token": "<|end|>", "tokenizer_class": "TokenizersBackend"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder
