"""Small replicas of real families' tokenizer files: their pre-tokenizers, post-processors, byte fallback and quirks.

Vocabularies are trained on our own corpus, so ids are small; everything else (classes, settings, which file names which
token, templates' markers, padded embeddings) is as the family publishes it. Each builder writes a folder whose header
has an embedding, so that the whole check runs on it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from modelctl.tokenization.vocabulary import byte_letters
from tests.support.models import write_json
from tests.tokenization.family_templates import (
    CHATML,
    DEEPSEEK_CHAT,
    GEMMA_CHAT,
    LLAMA2_CHAT,
    LLAMA3_CHAT,
    MISTRAL_TOOLS,
    PHI_CHAT,
    QWEN_TOOLS,
)
from tests.tokenization.replicas import (
    a_metaspace,
    byte_level,
    fast_of,
    llama_sentencepiece,
    sentencepiece_model,
    special,
    training_texts,
    unigram,
    write_model,
)

NO_LIMIT = 1000000000000000019884624838656
"""How transformers writes "no maximum length"."""
_QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LLAMA3_SPLIT = _QWEN_SPLIT.replace(r"|\p{N}|", r"|\p{N}{1,3}|")


def llama_2(folder: Path) -> Path:
    """Llama 2 chat: sentencepiece beside tokenizer.json, no pad token, pad 0 in generation_config.json."""
    made = a_metaspace(legacy=True)
    added = special(made, ["<unk>", "<s>", "</s>"])
    return write_model(
        folder, made,
        config={
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "bos_token_id": 1, "eos_token_id": 2,
            "max_position_embeddings": 4096,
        },
        generation={"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "do_sample": True, "max_length": 4096},
        settings={
            "add_bos_token": True, "add_eos_token": False, "added_tokens_decoder": added, "bos_token": "<s>",
            "chat_template": LLAMA2_CHAT, "clean_up_tokenization_spaces": False, "eos_token": "</s>",
            "legacy": False, "model_max_length": NO_LIMIT, "pad_token": None, "padding_side": "right",
            "sp_model_kwargs": {}, "tokenizer_class": "LlamaTokenizer", "unk_token": "<unk>",
        },
        tokenizer__model=llama_sentencepiece(),
        special_tokens_map__json=json.dumps({"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}),
    )  # fmt: skip


def mistral(folder: Path) -> Path:
    """Mistral v0.3 instruct: control tokens of its template are pieces, tools, refused system messages."""
    made = a_metaspace(legacy=False)
    markers = ["[INST]", "[/INST]", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
               "[/TOOL_RESULTS]"]  # fmt: skip
    added = special(made, ["<unk>", "<s>", "</s>", *markers])
    return write_model(
        folder, made,
        config={
            "architectures": ["MistralForCausalLM"], "model_type": "mistral", "bos_token_id": 1, "eos_token_id": 2,
            "max_position_embeddings": 32768,
        },
        generation={"bos_token_id": 1, "eos_token_id": 2},
        settings={
            "add_bos_token": True, "add_eos_token": False, "added_tokens_decoder": added, "bos_token": "<s>",
            "chat_template": MISTRAL_TOOLS, "eos_token": "</s>", "legacy": False, "model_max_length": NO_LIMIT,
            "pad_token": None, "tokenizer_class": "LlamaTokenizer", "unk_token": "<unk>",
        },
        tokenizer__model=llama_sentencepiece(),
    )  # fmt: skip


def mistral_nemo(folder: Path) -> Path:
    """Mistral Nemo and later: bytes, special tokens first, tekken.json beside tokenizer.json."""
    marks = ["INST", "/INST", "AVAILABLE_TOOLS", "/AVAILABLE_TOOLS", "TOOL_RESULTS", "/TOOL_RESULTS", "TOOL_CALLS"]
    names = ["<unk>", "<s>", "</s>", *(f"[{mark}]" for mark in marks), "<pad>"]
    names += [f"<SPECIAL_{number}>" for number in range(len(names), 20)]
    written = json.loads(byte_level(_LLAMA3_SPLIT))
    value_of = {letter: value for value, letter in enumerate(byte_letters())}
    pieces = written["model"]["vocab"]
    ranks = {text: value_of[text] if len(text) == 1 else number for text, number in pieces.items()}
    rows = sorted(ranks.items(), key=lambda item: item[1])
    written["model"]["vocab"] = {
        **{name: number for number, name in enumerate(names)},
        **{text: rank + len(names) for text, rank in rows},
    }
    made = Tokenizer.from_str(json.dumps(written))
    added = special(made, names)
    tekken = {
        "config": {
            "pattern": _LLAMA3_SPLIT, "num_vocab_tokens": len(rows), "default_vocab_size": len(rows) + len(names),
            "default_num_special_tokens": len(names), "version": "v7",
        },
        "vocab": [
            {
                "rank": rank,
                "token_bytes": base64.b64encode(bytes(value_of[letter] for letter in text)).decode(),
                "token_str": None,
            }
            for text, rank in rows
        ],
        "special_tokens": [
            {"rank": number, "token_str": name, "is_control": True} for number, name in enumerate(names)
        ],
    }  # fmt: skip
    return write_model(
        folder, made,
        config={
            "architectures": ["MistralForCausalLM"], "model_type": "mistral", "bos_token_id": 1, "eos_token_id": 2,
            "max_position_embeddings": 131072,
        },
        generation={"bos_token_id": 1, "eos_token_id": 2},
        settings={
            "added_tokens_decoder": added, "bos_token": "<s>", "chat_template": MISTRAL_TOOLS, "eos_token": "</s>",
            "model_max_length": NO_LIMIT, "pad_token": "<pad>", "tokenizer_class": "PreTrainedTokenizerFast",
            "unk_token": "<unk>",
        },
        tekken__json=json.dumps(tekken),
    )  # fmt: skip


def llama_3(folder: Path) -> Path:
    """Llama 3.1 instruct: bytes, several end tokens in a list, no pad token, reserved tokens."""
    made = Tokenizer.from_str(byte_level(_LLAMA3_SPLIT))
    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>",
             "<|eot_id|>", *(f"<|reserved_special_token_{number}|>" for number in range(9))]  # fmt: skip
    added = special(made, names)
    begin, end, eom, eot = (made.token_to_id(names[index]) for index in (0, 1, 4, 5))
    made.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", begin)]),
    ])  # fmt: skip
    ends = [end, eom, eot]
    return write_model(
        folder, made,
        config={
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "bos_token_id": begin, "eos_token_id": ends,
            "max_position_embeddings": 131072,
        },
        generation={"bos_token_id": begin, "eos_token_id": ends, "do_sample": True, "temperature": 0.6},
        settings={
            "added_tokens_decoder": added, "bos_token": "<|begin_of_text|>", "chat_template": LLAMA3_CHAT,
            "clean_up_tokenization_spaces": True, "eos_token": "<|eot_id|>", "model_max_length": 131072,
            "model_input_names": ["input_ids", "attention_mask"], "tokenizer_class": "PreTrainedTokenizerFast",
        },
    )  # fmt: skip


def qwen(folder: Path, *, version: str = "2.5") -> Path:
    """Qwen 2.5 and 3 instruct: pad is another token than end, begin is only in config.json, rows are padded."""
    made = Tokenizer.from_str(byte_level(_QWEN_SPLIT, nfc=True))
    tool_marks = ["<tool_call>", "</tool_call>"]
    added = special(made, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], plain=tool_marks)
    text, _, end = (made.token_to_id(token) for token in ("<|endoftext|>", "<|im_start|>", "<|im_end|>"))
    model = json.loads(made.to_str())["model"]
    vocab = json.dumps(model["vocab"], ensure_ascii=False)
    return write_model(
        folder, made,
        config={
            "architectures": [f"Qwen{version[0]}ForCausalLM"], "model_type": f"qwen{version[0]}",
            "bos_token_id": text, "eos_token_id": end, "max_position_embeddings": 32768,
        },
        generation={"bos_token_id": text, "eos_token_id": [end, text], "pad_token_id": text, "top_p": 0.8},
        settings={
            "add_bos_token": False, "add_prefix_space": False, "added_tokens_decoder": added,
            "additional_special_tokens": ["<|im_start|>", "<|im_end|>"], "bos_token": None,
            "chat_template": QWEN_TOOLS, "clean_up_tokenization_spaces": False, "eos_token": "<|im_end|>",
            "errors": "replace", "model_max_length": 131072, "pad_token": "<|endoftext|>",
            "split_special_tokens": False, "tokenizer_class": "Qwen2Tokenizer", "unk_token": None,
        },
        padding_rows=267,
        vocab__json=vocab,
        merges__txt="\n".join(" ".join(pair) for pair in model["merges"]) + "\n",
    )  # fmt: skip


def gemma(folder: Path) -> Path:
    """Gemma 2 instruct: bytes by fallback, no space in front, a begin token, runs of line ends as tokens."""
    proto = sentencepiece_model(
        "bpe", vocab_size=1100, byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
        add_dummy_prefix=False, split_digits=True, pad_id=0, eos_id=1, bos_id=2, unk_id=3, pad_piece="<pad>",
        bos_piece="<bos>", eos_piece="<eos>",
        own=("<mask>", "<start_of_turn>", "<end_of_turn>", "\n", "\n\n", "▁▁", "▁▁▁▁", "<table>"),
    )  # fmt: skip
    vocab, merges = fast_of(proto)
    made = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.normalizer = normalizers.Replace(" ", "▁")
    made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    made.post_processor = processors.TemplateProcessing(
        single="<bos> $A", pair="<bos> $A <bos> $B", special_tokens=[("<bos>", vocab["<bos>"])]
    )
    added = special(
        made, ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"],
        plain=["<mask>", "\n", "\n\n", "▁▁", "▁▁▁▁", "<table>"],
    )  # fmt: skip
    return write_model(
        folder, made,
        config={
            "architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "bos_token_id": 2, "eos_token_id": 1,
            "pad_token_id": 0, "max_position_embeddings": 8192,
        },
        generation={"bos_token_id": 2, "eos_token_id": [1, vocab["<end_of_turn>"]], "pad_token_id": 0},
        settings={
            "add_bos_token": True, "add_eos_token": False, "added_tokens_decoder": added,
            "additional_special_tokens": ["<start_of_turn>", "<end_of_turn>"], "bos_token": "<bos>",
            "chat_template": GEMMA_CHAT, "clean_up_tokenization_spaces": False, "eos_token": "<eos>",
            "model_max_length": NO_LIMIT, "pad_token": "<pad>", "spaces_between_special_tokens": False,
            "tokenizer_class": "GemmaTokenizer", "unk_token": "<unk>",
        },
        tokenizer__model=proto,
    )  # fmt: skip


def phi_3(folder: Path) -> Path:
    """Phi 3 instruct: Llama 2's pieces, its own special tokens after them, padded rows, three end tokens."""
    made = a_metaspace(legacy=True)
    names = ["<|endoftext|>", "<|assistant|>", "<|system|>", "<|end|>", "<|user|>", "<|placeholder1|>"]
    added = special(made, ["<unk>", "<s>", *names], plain=["</s>"])
    text, assistant, end = (made.token_to_id(names[index]) for index in (0, 1, 3))
    return write_model(
        folder, made,
        config={
            "architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "bos_token_id": 1, "eos_token_id": text,
            "pad_token_id": text, "max_position_embeddings": 4096,
        },
        generation={"bos_token_id": 1, "eos_token_id": [text, assistant, end], "pad_token_id": text},
        settings={
            "add_bos_token": False, "add_eos_token": False, "added_tokens_decoder": added, "bos_token": "<s>",
            "chat_template": PHI_CHAT, "clean_up_tokenization_spaces": False, "eos_token": "<|endoftext|>",
            "legacy": False, "model_max_length": 4096, "pad_token": "<|endoftext|>", "padding_side": "left",
            "sp_model_kwargs": {}, "tokenizer_class": "LlamaTokenizer", "unk_token": "<unk>",
            "use_default_system_prompt": False,
        },
        padding_rows=53,
        tokenizer__model=llama_sentencepiece(),
        added_tokens__json=json.dumps({name: made.token_to_id(name) for name in names}),
    )  # fmt: skip


def gpt_2(folder: Path) -> Path:
    """GPT-2: one special token for everything, no pad, no template, learned positions, vocab.json and merges.txt."""
    made = Tokenizer.from_str(byte_level(None))
    special(made, ["<|endoftext|>"])
    model = json.loads(made.to_str())["model"]
    model["vocab"]["<|endoftext|>"] = len(model["vocab"])
    end = made.token_to_id("<|endoftext|>")
    return write_model(
        folder, made,
        config={
            "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "bos_token_id": end, "eos_token_id": end,
            "n_positions": 1024, "n_ctx": 1024,
        },
        generation={"_from_model_config": True, "bos_token_id": end, "eos_token_id": end},
        settings={"model_max_length": 1024},
        table="wte.weight",
        vocab__json=json.dumps(model["vocab"]),
        merges__txt="#version: 0.2\n" + "\n".join(" ".join(pair) for pair in model["merges"]) + "\n",
    )  # fmt: skip


def bert(folder: Path) -> Path:
    """BERT uncased: WordPiece that folds case and accents, vocab.txt, no causal ids in config.json."""
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece(prefix="##")
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    made.train_from_iterator(
        training_texts(), trainers.WordPieceTrainer(vocab_size=1200, special_tokens=names, show_progress=False)
    )
    made.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )  # fmt: skip
    pieces = sorted(made.get_vocab(), key=made.get_vocab().__getitem__)
    return write_model(
        folder, made,
        config={
            "architectures": ["BertForMaskedLM"], "model_type": "bert", "pad_token_id": 0,
            "max_position_embeddings": 512,
        },
        settings={
            "cls_token": "[CLS]", "do_lower_case": True, "mask_token": "[MASK]", "model_max_length": 512,
            "pad_token": "[PAD]", "sep_token": "[SEP]", "strip_accents": None, "tokenize_chinese_chars": True,
            "tokenizer_class": "BertTokenizer", "unk_token": "[UNK]",
        },
        table="bert.embeddings.word_embeddings.weight",
        vocab__txt="\n".join(pieces) + "\n",
    )  # fmt: skip


def mini_lm(folder: Path) -> Path:
    """all-MiniLM: BERT's files with padding and a truncation shorter than the model inside tokenizer.json."""
    bert(folder)
    made = Tokenizer.from_file(str(folder / "tokenizer.json"))
    made.enable_truncation(128)
    made.enable_padding(length=128, pad_token="[PAD]", pad_id=0)
    made.save(str(folder / "tokenizer.json"))
    config = json.loads((folder / "config.json").read_text())
    write_json(folder / "config.json", config | {"architectures": ["BertModel"]})
    write_json(folder / "modules.json", [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models"}])
    return folder


def t5(folder: Path) -> Path:
    """T5: Unigram with spiece.model, extra ids after the pieces, padded rows, an end token after every text."""
    proto = sentencepiece_model("unigram", vocab_size=900, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    made = unigram(proto, unk=2)
    extra = [f"<extra_id_{number}>" for number in range(100)]
    added = special(made, ["<pad>", "</s>", "<unk>", *reversed(extra)])
    made.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    return write_model(
        folder, made,
        config={
            "architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "decoder_start_token_id": 0,
            "eos_token_id": 1, "pad_token_id": 0, "n_positions": 512, "is_encoder_decoder": True,
        },
        generation={"_from_model_config": True, "decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0},
        settings={
            "added_tokens_decoder": added, "additional_special_tokens": extra, "eos_token": "</s>", "extra_ids": 100,
            "model_max_length": 512, "pad_token": "<pad>", "tokenizer_class": "T5Tokenizer", "unk_token": "<unk>",
        },
        table="shared.weight",
        padding_rows=28,
        spiece__model=proto,
    )  # fmt: skip


def xlm_roberta(folder: Path) -> Path:
    """XLM-RoBERTa: a sentencepiece model whose ids are one less than tokenizer.json's, two positions more."""
    proto = sentencepiece_model("unigram", vocab_size=901, unk_id=0, bos_id=1, eos_id=2)
    front = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    made = unigram(proto, front=front, skip=3, unk=3)
    made.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    added = special(made, ["<s>", "<pad>", "</s>", "<unk>"])
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return write_model(
        folder, made,
        config={
            "architectures": ["XLMRobertaForMaskedLM"], "model_type": "xlm-roberta", "bos_token_id": 0,
            "eos_token_id": 2, "pad_token_id": 1, "max_position_embeddings": 514,
        },
        settings={
            "added_tokens_decoder": added, "bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>",
            "mask_token": "<mask>", "model_max_length": 512, "pad_token": "<pad>", "sep_token": "</s>",
            "tokenizer_class": "XLMRobertaTokenizer", "unk_token": "<unk>",
        },
        table="roberta.embeddings.word_embeddings.weight",
        sentencepiece__bpe__model=proto,
    )  # fmt: skip


def smollm2(folder: Path) -> Path:
    """SmolLM2 instruct: digits one by one, end token that also pads, GPT-2's class named for a Llama."""
    made = Tokenizer.from_str(byte_level(None, digits=True))
    added = special(made, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    text, start, end = (made.token_to_id(token) for token in ("<|endoftext|>", "<|im_start|>", "<|im_end|>"))
    assert text < start < end
    model = json.loads(made.to_str())["model"]
    return write_model(
        folder, made,
        config={
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "bos_token_id": start, "eos_token_id": end,
            "pad_token_id": end, "max_position_embeddings": 8192,
        },
        generation={"_from_model_config": True, "bos_token_id": start, "eos_token_id": end, "pad_token_id": end},
        settings={
            "add_prefix_space": False, "added_tokens_decoder": added,
            "additional_special_tokens": ["<|im_start|>", "<|im_end|>"], "bos_token": "<|im_start|>",
            "chat_template": CHATML, "clean_up_tokenization_spaces": False, "eos_token": "<|im_end|>",
            "model_max_length": 8192, "pad_token": "<|im_end|>", "tokenizer_class": "GPT2Tokenizer",
            "unk_token": "<|endoftext|>", "vocab_size": 49152,
        },
        vocab__json=json.dumps(model["vocab"]),
        merges__txt="#version: 0.2\n" + "\n".join(" ".join(pair) for pair in model["merges"]) + "\n",
    )  # fmt: skip


def deepseek_distill(folder: Path) -> Path:
    """DeepSeek-R1-Distill: Llama's class named for a tokenizer on bytes, markers with other bars, a short maximum."""
    made = Tokenizer.from_str(byte_level(_QWEN_SPLIT))
    names = ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"]
    added = special(made, names[:2], plain=names[2:])
    begin, end = (made.token_to_id(name) for name in names[:2])
    made.post_processor = processors.TemplateProcessing(
        single=f"{names[0]} $A", special_tokens=[(names[0], begin)]
    )  # fmt: skip
    return write_model(
        folder, made,
        config={
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "bos_token_id": begin, "eos_token_id": end,
            "max_position_embeddings": 131072,
        },
        generation={"bos_token_id": begin, "eos_token_id": end, "do_sample": True},
        settings={
            "add_bos_token": True, "add_eos_token": False, "added_tokens_decoder": added, "bos_token": names[0],
            "chat_template": DEEPSEEK_CHAT, "clean_up_tokenization_spaces": False, "eos_token": names[1],
            "legacy": True, "model_max_length": 16384, "pad_token": names[1], "sp_model_kwargs": {},
            "tokenizer_class": "LlamaTokenizerFast", "unk_token": None,
        },
    )  # fmt: skip


FAMILIES: Mapping[str, Callable[[Path], Path]] = {
    "llama-2": llama_2,
    "llama-3": llama_3,
    "mistral": mistral,
    "mistral-nemo": mistral_nemo,
    "qwen-2.5": lambda folder: qwen(folder, version="2.5"),
    "qwen-3": lambda folder: qwen(folder, version="3"),
    "gemma-2": gemma,
    "phi-3": phi_3,
    "gpt-2": gpt_2,
    "bert": bert,
    "mini-lm": mini_lm,
    "t5": t5,
    "xlm-roberta": xlm_roberta,
    "smollm2": smollm2,
    "deepseek-distill": deepseek_distill,
}
