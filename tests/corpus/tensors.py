"""Weights whose header, index or layout lies."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping

from tests.corpus.base import GATE, WHOLE, Input, as_json, edited, host
from tests.support import gguf
from tests.support.models import raw_safetensors

GROUP = "weights"
_FORMAT = "safetensors README, format; Trail of Bits' audit of 2023"
_SAFETENSORS = ("integrity.safetensors",)
_GGUF = ("integrity.gguf", "code.unreadable-gguf")


def inputs() -> Iterator[Input]:
    """All of them."""
    yield from _headers()
    yield from _indexes()
    yield from _ggufs()
    yield from _rest()


def _input(
    name: str, what: str, report: str, files: Mapping[str, bytes], rules: tuple[str, ...], *,
    without: tuple[str, ...] = (), checks: tuple[str, ...] = GATE,
) -> Input:  # fmt: skip
    return Input(
        id=f"weights-{name}", group=GROUP, what=what, report=report, files=files, rules=rules, without=without,
        checks=checks,
    )  # fmt: skip


def _header(**tensors: tuple[str, list[int], int, int]) -> bytes:
    return json.dumps(
        {
            name: {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}
            for name, (kind, shape, begin, end) in tensors.items()
        }
    ).encode()


def _headers() -> Iterator[Input]:
    good = _header(a=("F32", [2], 0, 8))
    overlap = _header(a=("F32", [2], 0, 8), b=("F32", [2], 4, 12))
    hole = _header(a=("F32", [1], 0, 4), b=("F32", [1], 8, 12))
    bad: dict[str, tuple[str, bytes]] = {
        "huge-header": ("a header of 2^62 bytes", raw_safetensors(good, bytes(8), length=1 << 62)),
        "long-header": ("a header of 100,000,001 bytes", raw_safetensors(good, bytes(8), length=100_000_001)),
        "overlap": ("two tensors on the same bytes", raw_safetensors(overlap, bytes(12))),
        "hole": ("bytes that belong to no tensor", raw_safetensors(hole, bytes(12))),
        "tail": ("a pickle behind the last tensor", raw_safetensors(good, bytes(8) + b"cposix\nsystem\n(S'true'\ntR.")),
        "twice": ("a tensor's name twice", raw_safetensors(good[:-1] + b"," + good[1:], bytes(8))),
        "utf-8": ("a name that is no UTF-8", raw_safetensors(good.replace(b'"a"', b'"\xff"'), bytes(8))),
        "metadata": ("metadata that is no text", raw_safetensors(b'{"__metadata__":{"n":1},' + good[1:], bytes(8))),
        "shape": ("a shape of 1000 over 8 bytes", raw_safetensors(_header(a=("BF16", [1000], 0, 8)), bytes(8))),
        "overflow": ("a shape whose product overflows", raw_safetensors(_header(a=("F32", [1 << 62, 4], 0, 0)), b"")),
    }  # fmt: skip
    for name, (what, data) in bad.items():
        yield _input(name, what, _FORMAT, {"model.safetensors": data}, _SAFETENSORS)


def _indexes() -> Iterator[Input]:
    whole = host()["model.safetensors"]
    first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    empty = raw_safetensors(b"{}")
    names = json.loads(whole[8 : 8 + struct.unpack("<Q", whole[:8])[0]])
    names.pop("__metadata__")
    report = "modelctl's reference: no scanner looks at the map of shards"
    for name, what, target, rules in (
        (
            "traversal",
            "an index that names a file outside",
            "../other/model.safetensors",
            "integrity.index-path-traversal",
        ),
        ("missing-shard", "an index that names a file that is not there", second, "integrity.index-"),
        ("wrong-shard", "an index that names the wrong shard", second, "integrity.index-"),
    ):
        index = as_json({"metadata": {"total_size": 1}, "weight_map": dict.fromkeys(names, target)})
        files = {"model.safetensors.index.json": index, first: whole}
        files |= {second: empty} if name == "wrong-shard" else {}
        yield _input(f"index-{name}", what, report, files, (rules,), without=("model.safetensors",))
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 1234\n".encode()
    yield _input(
        "lfs-pointer",
        "a Git LFS pointer instead of the weights",
        "git-lfs, spec.md",
        {"model.safetensors": pointer},
        ("integrity.lfs-pointer",),
    )


def _ggufs() -> Iterator[Input]:
    architecture = gguf.entry("general.architecture", 8, gguf.text("llama"))
    exa = gguf.tensor("output.weight", (1 << 40, 1 << 40), 0, 0)
    past = gguf.tensor("output.weight", (8,), 0, 1 << 40)
    overflow = "CVE-2026-33298, CVE-2026-27940 (llama.cpp): sizes that overflow"
    bleeding = "CVE-2026-7482 (Ollama): tensors larger than the file"
    yield _input(
        "gguf-overflow",
        "a GGUF tensor whose size overflows",
        overflow,
        {"model.gguf": gguf.gguf([architecture], [exa], bytes(32))},
        _GGUF,
    )
    yield _input(
        "gguf-past-end",
        "a GGUF tensor behind the end of the file",
        bleeding,
        {"model.gguf": gguf.gguf([architecture], [past], bytes(32))},
        _GGUF,
    )
    count = gguf.gguf([architecture], counts=(1 << 60, 1 << 60))
    yield _input("gguf-counts", "a GGUF file that claims 2^60 tensors", overflow, {"model.gguf": count}, _GGUF)
    text = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1 << 62) + b"x"
    yield _input("gguf-text", "a GGUF key of 2^62 bytes", overflow, {"model.gguf": text}, _GGUF)


def _rest() -> Iterator[Input]:
    tokenizer = json.loads(host()["tokenizer.json"])
    tokenizer["added_tokens"].append(tokenizer["added_tokens"][0] | {"id": 5000, "content": "<|far|>"})
    report = "modelctl's reference: a token id at or over the embedding's rows"
    yield _input(
        "token-id",
        "a token whose id the embedding has no row for",
        report,
        {"tokenizer.json": as_json(tokenizer)},
        ("tokenizer.id-range",),
        checks=WHOLE,
    )
    page = b"<!DOCTYPE html><html><body>404</body></html>\n"
    yield _input(
        "html",
        "a web page instead of the weights",
        "what a proxy answers",
        {"model.safetensors": page},
        ("integrity.disguised",),
    )
    yield _input(
        "vocab",
        "a config.json with another vocabulary",
        report,
        {"config.json": edited("config.json", vocab_size=999)},
        ("integrity.embedding-rows", "integrity.tensor-shape"),
    )
