"""Files that are not what their names say, and entries of a folder that are no files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.corpus.base import GATE, Input, host
from tests.corpus.containers import torch_file, zipped
from tests.corpus.streams import SYSTEM

GROUP = "disguises"
RULES = ("malware.pickle-import",)
_EXTENSION = "CVE-2025-1889 (picklescan): only known extensions are read"
_JFROG = "CVE-2025-10155 (picklescan): the extension decides which reader is used"


def inputs() -> Iterator[Input]:
    """All of them."""
    for name, path, data, report in (
        ("safetensors", "model.safetensors", SYSTEM, _EXTENSION),
        ("p", "config.p", SYSTEM, _EXTENSION),
        ("pkl-upper", "weights.PKL", SYSTEM, _EXTENSION),
        ("json", "generation_config.json", SYSTEM, _EXTENSION),
        ("readme", "README.md", SYSTEM, _EXTENSION),
        ("dat", "license.dat", SYSTEM, _EXTENSION),
        ("png", "figure.png", SYSTEM, _EXTENSION),
        ("hidden", ".cache/index", SYSTEM, _EXTENSION),
        ("bin-pickle", "pytorch_model.bin", SYSTEM, _JFROG),
        ("zip-pkl", "model.pkl", torch_file(SYSTEM), _JFROG),
        ("zip-json", "tokenizer_extra.json", torch_file(SYSTEM), _JFROG),
        ("zip-safetensors", "adapter.safetensors", zipped({"data.pkl": SYSTEM}), _JFROG),
    ):
        yield Input(
            id=f"disguise-{name}",
            group=GROUP,
            what=f"a pickle named {path}",
            report=report,
            files={path: data},
            rules=RULES,
        )
    yield from _entries()


def _input(name: str, what: str, report: str, rule: str, files: Mapping[str, bytes], links: Mapping[str, str]) -> Input:
    return Input(
        id=f"disguise-{name}", group=GROUP, what=what, report=report, files=files, links=links, rules=(rule,),
        checks=GATE,
    )  # fmt: skip


def _entries() -> Iterator[Input]:
    outside = "CVE-2007-4559 and its kin: links out of a folder"
    yield _input(
        "link-outside",
        "a configuration that is a link out of the repository",
        outside,
        "integrity.link-outside",
        {},
        {"generation_config.json": "/etc/hostname"},
    )
    yield _input(
        "broken-link",
        "a link that leads nowhere",
        outside,
        "integrity.broken-link",
        {},
        {"model-2.safetensors": "nowhere"},
    )
    clash = {"Config.json": host()["config.json"]}
    yield _input(
        "case-clash",
        "two names that differ in case",
        "CVE-2014-9390 (git): names on other file systems",
        "integrity.case-clash",
        clash,
        {},
    )
    turned = {"model\u202egnp.py": b"x = 1\n"}
    yield _input(
        "turned-name",
        "a name that is shown the other way round",
        "CVE-2021-42574, Trojan Source: characters that turn the direction",
        "integrity.control-characters",
        turned,
        {},
    )
