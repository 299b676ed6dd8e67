"""Flawed and hostile model folders: which family it begins as, what is broken, and the rule that must name it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.models import write_json, write_safetensors
from tests.tokenization.models import edit_json
from tests.tokenization.replicas import llama_sentencepiece, sentencepiece_model

Break = Callable[[Path], None]


@dataclass(frozen=True, kw_only=True)
class Flaw:
    """One broken folder."""

    family: str
    rule: str
    damage: Break
    limits: Mapping[str, object] = field(default_factory=dict)


def all_of(*breaks: Break) -> Break:
    """Several at once."""

    def write(folder: Path) -> None:
        for damage in breaks:
            damage(folder)

    return write


def settings(**members: object) -> Break:
    """Write members of tokenizer_config.json."""
    return lambda folder: edit_json(folder / "tokenizer_config.json", lambda it: it.update(members))


def generation(**members: object) -> Break:
    return lambda folder: edit_json(folder / "generation_config.json", lambda it: it.update(members))


def config(**members: object) -> Break:
    return lambda folder: edit_json(folder / "config.json", lambda it: it.update(members))


def inside(change: Callable[[dict[str, Any]], object]) -> Break:
    """Change tokenizer.json in place."""

    def write(it: dict[str, Any]) -> None:
        change(it)

    return lambda folder: edit_json(folder / "tokenizer.json", write)


def tekken(change: Callable[[dict[str, Any]], object]) -> Break:
    """Change tekken.json in place."""

    def write(it: dict[str, Any]) -> None:
        change(it)

    return lambda folder: edit_json(folder / "tekken.json", write)


def file(name: str, content: str | bytes | Callable[[], bytes]) -> Break:
    """Write a whole file; what takes long to make is made when it is written."""

    def write(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        made = content() if callable(content) else content
        (folder / name).write_bytes(made.encode() if isinstance(made, str) else made)

    return write


def template(source: str) -> Break:
    return settings(chat_template=source)


def lines(name: str, change: Callable[[list[str]], object]) -> Break:
    """Change the list of lines of a text file in place."""

    def write(folder: Path) -> None:
        rows = (folder / name).read_text(encoding="utf-8").split("\n")
        change(rows)
        (folder / name).write_text("\n".join(rows), encoding="utf-8")

    return write


def swap(rows: list[Any], one: int, two: int) -> None:
    rows[one], rows[two] = rows[two], rows[one]


def swap_ids(vocab: dict[str, int], one: str, two: str) -> None:
    vocab[one], vocab[two] = vocab[two], vocab[one]


def swap_bytes(rows: list[dict[str, Any]], one: int, two: int) -> None:
    rows[one]["token_bytes"], rows[two]["token_bytes"] = rows[two]["token_bytes"], rows[one]["token_bytes"]


def fewer_rows(folder: Path) -> None:
    write_safetensors(folder / "model.safetensors", {"model.embed_tokens.weight": ("BF16", (400, 1), bytes(800))})
    edit_json(folder / "config.json", lambda it: it.update(vocab_size=400))


def ranks(folder: Path) -> None:
    """A tiktoken list whose first two ranks are swapped."""
    from modelctl.tokenization.vocabulary import byte_letters

    values = {letter: value for value, letter in enumerate(byte_letters())}
    vocab = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    swap_ids(vocab, "a", "b")
    rows = [f"{base64.b64encode(bytes(values[c] for c in text)).decode()} {rank}" for text, rank in vocab.items()]
    (folder / "qwen.tiktoken").write_text("\n".join(rows) + "\n")


def model_of(tokenizer: dict[str, Any]) -> dict[str, Any]:
    part = tokenizer["model"]
    assert isinstance(part, dict)
    return part


def drop_added(text: str) -> Callable[[dict[str, Any]], object]:
    """Take a token out of added_tokens and make it an ordinary piece with the same id."""

    def change(it: dict[str, Any]) -> None:
        (row,) = [row for row in it["added_tokens"] if row["content"] == text]
        it["added_tokens"].remove(row)
        it["model"]["vocab"][text] = row["id"]

    return change


def renamed(old: str, new: str) -> Break:
    """Give an added token another text in all files."""

    def write(folder: Path) -> None:
        for name in ("tokenizer.json", "tokenizer_config.json"):
            path = folder / name
            path.write_text(path.read_text(encoding="utf-8").replace(json.dumps(old), json.dumps(new)), "utf-8")

    return write


USED = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
TURNS = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>' }}{% endfor %}"
    "{% if tools %}{{ 'You have ' ~ tools | length ~ ' tools' }}{% endif %}"
)
FLAWS: Mapping[str, Flaw] = {
    # Ids and the embedding
    "ids past the embedding": Flaw(family="qwen-2.5", rule="id-range", damage=fewer_rows),
    "a negative id": Flaw(family="gpt-2", rule="id-range", damage=inside(lambda it: it["added_tokens"].append(
        {**it["added_tokens"][0], "content": "<x>", "id": -1}))),
    "vocab_size is another than the rows": Flaw(family="llama-3", rule="vocab-size", damage=config(vocab_size=9999)),
    "one piece has two ids": Flaw(family="qwen-2.5", rule="id-clash", damage=settings(
        added_tokens_decoder={"9": {"content": "<|im_end|>", "special": True}})),
    "two added tokens have one id": Flaw(family="llama-3", rule="id-clash", damage=inside(
        lambda it: it["added_tokens"][1].update(id=it["added_tokens"][0]["id"]))),
    "two pieces have one id": Flaw(family="gpt-2", rule="id-clash", damage=inside(
        lambda it: model_of(it)["vocab"].update(a=model_of(it)["vocab"]["b"]))),
    "added_tokens.json says another id": Flaw(family="phi-3", rule="id-clash", damage=file(
        "added_tokens.json", '{"<|end|>": 5}')),
    "an added token twice": Flaw(family="qwen-3", rule="special-duplicate", damage=inside(
        lambda it: it["added_tokens"].append(dict(it["added_tokens"][0])))),
    "a byte is missing": Flaw(family="gpt-2", rule="missing-bytes", damage=inside(
        lambda it: model_of(it)["vocab"].pop("ä"))),
    "a byte of the fallback is missing": Flaw(family="llama-2", rule="missing-bytes", damage=inside(
        lambda it: model_of(it)["vocab"].update({"<0x?>": model_of(it)["vocab"].pop("<0xE4>")}))),
    # Copies in older forms
    "vocab.json swaps two": Flaw(family="gpt-2", rule="variants-differ", damage=lambda folder: edit_json(
        folder / "vocab.json", lambda it: swap_ids(it, "a", "b"))),
    "vocab.json lacks one": Flaw(family="qwen-2.5", rule="variants-differ", damage=lambda folder: edit_json(
        folder / "vocab.json", lambda it: it.pop("a"))),
    "merges.txt in another order": Flaw(family="smollm2", rule="variants-differ", damage=lines(
        "merges.txt", lambda rows: swap(rows, 3, 9))),
    "merges.txt is shorter": Flaw(family="gpt-2", rule="variants-differ", damage=lines(
        "merges.txt", lambda rows: rows.pop(20))),
    "vocab.txt swaps two lines": Flaw(family="bert", rule="variants-differ", damage=lines(
        "vocab.txt", lambda rows: swap(rows, 30, 31))),
    "vocab.txt lacks a line": Flaw(family="bert", rule="variants-differ", damage=lines(
        "vocab.txt", lambda rows: rows.pop(50))),
    "vocab.txt repeats a line": Flaw(family="bert", rule="id-clash", damage=lines(
        "vocab.txt", lambda rows: rows.insert(60, rows[50]))),
    "tiktoken ranks swap two": Flaw(family="qwen-2.5", rule="variants-differ", damage=ranks),
    "tiktoken ranks are no base64": Flaw(family="qwen-2.5", rule="unreadable", damage=file(
        "qwen.tiktoken", "YQ== 0\nnot base64 at all! 1\n")),
    "tekken.json swaps two tokens": Flaw(family="mistral-nemo", rule="variants-differ", damage=tekken(
        lambda it: swap_bytes(it["vocab"], 300, 301))),
    "tekken.json names a special token otherwise": Flaw(family="mistral-nemo", rule="variants-differ", damage=tekken(
        lambda it: it["special_tokens"][3].update(token_str="[OTHER]"))),
    "tekken.json has one special token more": Flaw(family="mistral-nemo", rule="variants-differ", damage=tekken(
        lambda it: it["config"].update(
            default_num_special_tokens=21, default_vocab_size=it["config"]["default_vocab_size"] + 1))),
    "tekken.json splits digits otherwise": Flaw(family="mistral-nemo", rule="variants-differ", damage=tekken(
        lambda it: it["config"].update(pattern=r"\s+|\w|[^\s\w]"))),
    "tekken.json has a pattern that is none": Flaw(family="mistral-nemo", rule="unreadable", damage=tekken(
        lambda it: it["config"].update(pattern="(?<"))),
    "tekken.json is no base64": Flaw(family="mistral-nemo", rule="unreadable", damage=tekken(
        lambda it: it["vocab"][5].update(token_bytes="not base64"))),
    "tekken.json lacks a byte": Flaw(family="mistral-nemo", rule="unreadable", damage=tekken(
        lambda it: it["vocab"].pop(65))),
    "tekken.json is shorter than it says": Flaw(family="mistral-nemo", rule="unreadable", damage=tekken(
        lambda it: it["vocab"].pop())),
    "sentencepiece of another model": Flaw(family="llama-2", rule="variants-differ", damage=file(
        "tokenizer.model", lambda: sentencepiece_model("bpe", vocab_size=1000))),
    "sentencepiece is cut short": Flaw(family="llama-2", rule="unreadable", damage=file(
        "tokenizer.model", lambda: llama_sentencepiece()[:5000])),
    "sentencepiece is noise": Flaw(family="mistral", rule="unreadable", damage=file(
        "tokenizer.model", bytes(range(256)) * 40)),
    "sentencepiece is empty": Flaw(family="gemma-2", rule="unreadable", damage=file("tokenizer.model", b"")),
    "sentencepiece pieces swapped": Flaw(family="mistral", rule="variants-differ", damage=inside(
        lambda it: swap_ids(model_of(it)["vocab"], "▁a", "▁e"))),
    "unigram scores of tokenizer.json turned round": Flaw(family="t5", rule="variants-differ", damage=inside(
        lambda it: [row.__setitem__(1, -20 - row[1]) for row in model_of(it)["vocab"][3:]])),
    "all ids one further than sentencepiece's": Flaw(family="phi-3", rule="variants-differ", damage=inside(
        lambda it: model_of(it).update(vocab={text: n + 1 for text, n in model_of(it)["vocab"].items()}))),
    # Special tokens
    "the end token is not in the vocabulary": Flaw(family="llama-3", rule="special-missing", damage=settings(
        eos_token="<|end_of_trun|>")),
    "an additional special token is not there": Flaw(family="gemma-2", rule="special-missing", damage=settings(
        additional_special_tokens=["<start_of_turn>", "<nowhere>"])),
    "no file names an end token": Flaw(family="smollm2", rule="special-missing", damage=all_of(
        settings(eos_token=None), generation(eos_token_id=None), config(eos_token_id=None))),
    "the end id has no token": Flaw(family="qwen-2.5", rule="special-id", damage=generation(eos_token_id=[760])),
    "the padding id is past the embedding": Flaw(family="llama-2", rule="special-id", damage=generation(
        pad_token_id=32000)),
    "the decoder's start has no token": Flaw(family="t5", rule="special-id", damage=config(
        decoder_start_token_id=1020)),
    "end tokens differ": Flaw(family="smollm2", rule="eos-token", damage=all_of(
        config(eos_token_id=5), generation(eos_token_id=6))),
    "begin tokens differ": Flaw(family="gemma-2", rule="bos-token", damage=all_of(
        config(bos_token_id=5), generation(bos_token_id=5))),
    "padding tokens differ": Flaw(family="qwen-3", rule="pad-token", damage=generation(pad_token_id=7)),
    "special_tokens_map.json names another end": Flaw(family="llama-2", rule="eos-token", damage=file(
        "special_tokens_map.json", '{"eos_token": "<s>"}')),
    "special_tokens_map.json names another padding": Flaw(family="bert", rule="pad-token", damage=file(
        "special_tokens_map.json", '{"pad_token": "[MASK]"}')),
    "a special token is an ordinary piece": Flaw(family="qwen-2.5", rule="special-split", damage=inside(
        drop_added("<|im_end|>"))),
    "a special token is an everyday word": Flaw(family="llama-3", rule="special-in-text", damage=renamed(
        "<|reserved_special_token_3|>", "admitted")),
    "a special token is a Chinese full stop": Flaw(family="qwen-3", rule="special-in-text", damage=inside(
        lambda it: it["added_tokens"].append({**it["added_tokens"][0], "content": "。", "id": 505}))),
    "split_special_tokens is set": Flaw(family="qwen-2.5", rule="variants-differ", damage=settings(
        split_special_tokens=True)),
    # Declared class and lengths
    "BERT's class for bytes": Flaw(family="qwen-2.5", rule="class", damage=settings(tokenizer_class="BertTokenizer")),
    "T5's class for WordPiece": Flaw(family="bert", rule="class", damage=settings(tokenizer_class="T5TokenizerFast")),
    "GPT-2's class for Unigram": Flaw(family="t5", rule="class", damage=settings(tokenizer_class="GPT2Tokenizer")),
    "Qwen's class for GPT-2": Flaw(family="gpt-2", rule="variants-differ", damage=settings(
        tokenizer_class="Qwen2Tokenizer"), limits={"max_differing_texts": 0}),
    "the maximum is zero": Flaw(family="llama-3", rule="max-length", damage=settings(model_max_length=0)),
    "the maximum is a word": Flaw(family="gemma-2", rule="max-length", damage=settings(model_max_length="long")),
    "more than the table of positions": Flaw(family="gpt-2", rule="max-length", damage=settings(
        model_max_length=2048)),
    "a truncation left by training": Flaw(family="qwen-2.5", rule="max-length", damage=inside(
        lambda it: it.update(truncation={
            "direction": "Right", "max_length": 512, "strategy": "LongestFirst", "stride": 0}))),
    # Behaviour
    "a decoder that does not fit": Flaw(family="qwen-2.5", rule="round-trip", damage=all_of(
        settings(tokenizer_class="TokenizersBackend"),
        inside(lambda it: it.update(decoder={"type": "Fuse"})))),
    "a normalizer that lowers case": Flaw(family="llama-3", rule="variants-differ", damage=all_of(
        settings(tokenizer_class="GPT2Tokenizer"),
        inside(lambda it: it.update(normalizer={"type": "Lowercase"})))),
    "an unknown model type": Flaw(family="gpt-2", rule="load", damage=inside(
        lambda it: model_of(it).update(type="Magic"))),
    "a vocabulary of another tokenizer": Flaw(family="bert", rule="round-trip", damage=all_of(
        lambda folder: (folder / "vocab.txt").unlink(),
        inside(lambda it: model_of(it).update(vocab={
            text if text.startswith("[") else f"zz{n}": n for text, n in model_of(it)["vocab"].items()})))),
    "merges of nothing": Flaw(family="gpt-2", rule="load", damage=inside(
        lambda it: model_of(it).update(merges=[["zz", "qq"]]))),
    # Chat templates
    "a template that does not parse": Flaw(family="qwen-2.5", rule="template-syntax", damage=template("{% for %}")),
    "a template that reaches for Python": Flaw(family="llama-3", rule="template-unsafe", damage=template(
        "{{ messages.__class__.__mro__ }}" + USED)),
    "an unsafe template in another place": Flaw(family="qwen-2.5", rule="template-unsafe", damage=file(
        "additional_chat_templates/rag.jinja", "{{ cycler.__init__.__globals__ }}")),
    "an unsafe template in a list": Flaw(family="qwen-2.5", rule="template-unsafe", damage=template([
        {"name": "default", "template": USED}, {"name": "x", "template": "{{ ''['__class__'] }}"}])),  # type: ignore[arg-type]
    "a template bomb": Flaw(family="qwen-3", rule="template-limits", damage=template("{{ 'x' * 9000000000 }}" + USED),
                            limits={"template_time_limit_s": 2}),
    "a template that never ends": Flaw(family="qwen-3", rule="template-limits", damage=template(
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}" + USED),
        limits={"template_time_limit_s": 2}),
    "a template that refuses everything": Flaw(family="llama-2", rule="template-render", damage=template(
        "{{ raise_exception('no') }}")),
    "a template that drops the answer": Flaw(family="qwen-2.5", rule="template-drops-message", damage=template(
        USED.replace("{% for m in messages %}", "{% for m in messages if m.role != 'assistant' %}"))),
    "a template that cuts messages": Flaw(family="qwen-2.5", rule="template-drops-message", damage=template(
        USED.replace("m.content", "m.content[:5]"))),
    "chat_template.jinja is another": Flaw(family="qwen-2.5", rule="template-conflict", damage=file(
        "chat_template.jinja", USED)),
    "chat_template.json is another": Flaw(family="gemma-2", rule="template-conflict", damage=file(
        "chat_template.json", json.dumps({"chat_template": USED}))),
    "processor_config.json has another": Flaw(family="llama-3", rule="template-conflict", damage=file(
        "processor_config.json", json.dumps({"chat_template": USED}))),
    "a base model's end with a chat template": Flaw(family="qwen-2.5", rule="template-end-token", damage=all_of(
        settings(eos_token="<|endoftext|>"), generation(eos_token_id=500), config(eos_token_id=500))),
    "a template of another family": Flaw(family="llama-2", rule="template-end-token", damage=template(USED)),
    "tools that the prompt does not name": Flaw(family="qwen-2.5", rule="template-tools", damage=template(TURNS)),
    "tools that break the template": Flaw(family="qwen-3", rule="template-tools", damage=template(
        "{% if tools %}{{ tools.nothing.at_all }}{% endif %}" + USED)),
    "a tool's answer that is dropped": Flaw(family="qwen-3", rule="template-tools", damage=template(
        "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages if m.role != 'tool' %}"
        "{{ '<|im_start|>' + m.role + '\\n' + (m.content or '') + (m.tool_calls | tojson if m.tool_calls else '') }}"
        "<|im_end|>\n{% endfor %}")),
    "no template where one is wanted": Flaw(family="gpt-2", rule="template-missing", damage=lambda folder: None,
                                            limits={"chat_template_required": True}),
    # Files that are no such thing
    "tokenizer.json is empty": Flaw(family="gpt-2", rule="unreadable", damage=file("tokenizer.json", b"")),
    "tokenizer.json nests deeply": Flaw(family="gpt-2", rule="unreadable", damage=file(
        "tokenizer.json", b'{"a":' * 100_000)),
    "tokenizer.json repeats a key": Flaw(family="gpt-2", rule="unreadable", damage=file(
        "tokenizer.json", b'{"model": 1, "model": 2}')),
    "an id is a fraction": Flaw(family="gpt-2", rule="unreadable", damage=inside(
        lambda it: it["added_tokens"][0].update(id=1.5))),
    "tokenizer_config.json is a list": Flaw(family="gpt-2", rule="unreadable", damage=file(
        "tokenizer_config.json", "[]")),
    "generation_config.json is cut": Flaw(family="llama-3", rule="unreadable", damage=file(
        "generation_config.json", '{"eos_token_id": [1,')),
    "the end id is a word": Flaw(family="llama-3", rule="unreadable", damage=generation(eos_token_id="2")),
    "special_tokens_map.json names a number": Flaw(family="llama-2", rule="unreadable", damage=file(
        "special_tokens_map.json", '{"eos_token": 2}')),
    "vocab.txt is not UTF-8": Flaw(family="bert", rule="unreadable", damage=file("vocab.txt", b"[PAD]\n\xff\xfe\n")),
    "a template is a number": Flaw(family="llama-2", rule="unreadable", damage=settings(chat_template=3)),
}  # fmt: skip


def write_other_tokens(folder: Path) -> None:
    """For comparisons with an original: the same files with two pieces swapped."""
    edit_json(folder / "tokenizer.json", lambda it: swap_ids(it["model"]["vocab"], "a", "e"))
    write_json(folder / "vocab.json", json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"])
