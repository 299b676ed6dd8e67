"""Code in the repository, by name or hidden: what bandit is told to leave out, notebooks, machine code, credentials."""

from __future__ import annotations

import json
import marshal
import struct
from collections.abc import Iterator

from tests.corpus.base import Input
from tests.corpus.containers import zipped

GROUP = "code"
SYSTEM = "import os\nos.system('true')\n"
_BANDIT = "PyCQA/bandit docs, configuration"


def inputs() -> Iterator[Input]:
    """All of them."""
    yield from _python()
    yield from _hidden()
    yield from _other()


def _input(name: str, what: str, report: str, path: str, data: str | bytes, *rules: str) -> Input:
    content = data.encode() if isinstance(data, str) else data
    return Input(id=f"code-{name}", group=GROUP, what=what, report=report, files={path: content}, rules=rules)


def _python() -> Iterator[Input]:
    remote = "transformers docs, custom models: the repository's Python is run with trust_remote_code"
    yield _input(
        "system", "a module that starts a program", remote, "modeling_x.py", SYSTEM, "code.process", "code.bandit-"
    )
    yield _input(
        "exec", "a module that runs text as code", remote, "modeling_x.py", "exec('x = 1')\n", "code.dynamic-code"
    )
    hidden = "import base64\ngetattr(__builtins__, 'ex' + 'ec')(base64.b64decode('eD0x'))\n"
    yield _input(
        "getattr", "exec by a name that is put together", "arXiv 2508.19774: gadgets", "modeling_x.py", hidden, "code."
    )
    alias = "import random as r\nr._os.system('true')\n"
    yield _input(
        "reexport",
        "os reached through another module",
        "stacker.news/items/1512059: random and its _os",
        "modeling_x.py",
        alias,
        "code.",
    )
    late = "import importlib\nimportlib.import_module('o' + 's').system('true')\n"
    yield _input(
        "importlib", "a module imported by a computed name", remote, "tokenization_x.py", late, "code.dynamic-code"
    )
    native = "import ctypes\nctypes.CDLL('libc.so.6')\n"
    yield _input(
        "ctypes", "a module that loads machine code", "Python docs, ctypes", "modeling_x.py", native, "code.native-code"
    )
    pickled = "import pickle\n\n\ndef load(path):\n    return pickle.load(open(path, 'rb'))\n"
    yield _input("pickle-load", "a module that loads a pickle", "bandit B301", "handler.py", pickled, "code.")
    torch = "import torch\n\n\nclass EndpointHandler:\n    def __init__(self, path):\n        eval(open(path).read())\n"
    yield _input(
        "handler",
        "an endpoint handler that evaluates a file",
        "Hugging Face docs, Inference Endpoints: custom handlers",
        "handler.py",
        torch,
        "code.dynamic-code",
    )
    generate = "from os import popen\n\n\ndef generate(model, **kwargs):\n    popen('true')\n"
    yield _input(
        "custom-generate",
        "code that generate() takes from the repository",
        "transformers docs, custom_generate",
        "custom_generate/generate.py",
        generate,
        "code.process",
    )
    yield _input(
        "syntax",
        "Python that does not parse, with a call in it",
        f"{_BANDIT}: files with errors are skipped",
        "modeling_x.py",
        "def broken(:\n" + SYSTEM,
        "code.unreadable-python",
    )


def _hidden() -> Iterator[Input]:
    shell = "import subprocess\nsubprocess.Popen('true', shell=True)  # nosec\n"
    yield _input(
        "nosec", "a shell with a `# nosec` behind it", _BANDIT, "modeling_x.py", shell, "code.process", "code.bandit-"
    )
    skips = {"modeling_x.py": shell.encode(), ".bandit": b"[bandit]\nskips: B602,B605,B404\nexclude: /\n"}
    yield Input(
        id="code-bandit-file",
        group=GROUP,
        what="a shell and a .bandit that leaves it out",
        report=_BANDIT,
        files=skips,
        rules=("code.process",),
    )
    yield _input(
        "git-hook",
        "a hook in .git",
        "git docs, githooks",
        ".git/hooks/post-checkout",
        "#!/usr/bin/env python3\n" + SYSTEM,
        "code.process",
    )
    yield _input(
        "cache-folder",
        "a module in .cache",
        "hf cache verify does not list this folder",
        ".cache/huggingface/x.py",
        SYSTEM,
        "code.process",
    )
    yield _input(
        "no-extension",
        "a script without an extension",
        f"{_BANDIT}: only .py is read",
        "convert",
        "#!/usr/bin/python3\n" + SYSTEM,
        "code.process",
    )
    yield _input(
        "text", "Python in a text file", "content decides, not the name", "requirements.txt", SYSTEM, "code.process"
    )
    encoded = b"# -*- coding: utf-16 -*-\n" + SYSTEM.encode("utf-16")
    yield _input("utf-16", "a module in UTF-16", "PEP 263: a source's encoding", "modeling_x.py", encoded, "code.")
    cells = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": ["import os\n", "os.system('true')"]}]
    notebook = json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})
    yield _input(
        "notebook",
        "a notebook whose cell starts a program",
        f"{_BANDIT}: notebooks are not read",
        "demo.ipynb",
        notebook,
        "code.process",
    )
    cells[0]["source"] = ["!true"]
    notebook = json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})
    yield _input(
        "notebook-shell",
        "a notebook with a shell line",
        "IPython docs, system shell access",
        "demo.ipynb",
        notebook,
        "code.process",
    )
    yield _input(
        "zip",
        "a module in a zip archive",
        "Python docs, zipimport",
        "package.zip",
        zipped({"package/__init__.py": SYSTEM.encode()}),
        "code.",
        "malware.",
        "integrity.format",
    )
    yield _input(
        "site-pth",
        "a .pth file that Python's start runs",
        "Python docs, site: lines that begin with import are run",
        "evil.pth",
        "import os; os.system('true')\n",
        "code.",
        "integrity.format",
    )


def _other() -> Iterator[Input]:
    compiled = struct.pack("<H", 3495) + b"\r\n" + bytes(12) + marshal.dumps(None)
    yield _input(
        "pyc",
        "compiled Python without its source",
        "ReversingLabs 2023: compiled Python on PyPI",
        "modeling_x.pyc",
        compiled,
        "code.compiled-python",
    )
    yield _input(
        "elf",
        "a library in machine code",
        "vLLM and custom operators: torch.ops.load_library",
        "ops.so",
        b"\x7fELF\x02\x01\x01" + bytes(120),
        "code.native-binary",
        "integrity.format",
    )
    yield _input(
        "pe",
        "a Windows program named as a tokenizer",
        "content decides, not the name",
        "tokenizer.model",
        b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0" + bytes(200),
        "code.native-binary",
        "integrity.format",
    )
    yaml = "!!python/object/apply:os.system ['true']\n"
    yield _input(
        "yaml",
        "YAML that calls a function",
        "CVE-2020-1747, CVE-2017-18342 (PyYAML)",
        "training_args.yaml",
        yaml,
        "code.yaml-object",
    )
    tagged = "%TAG !p! tag:yaml.org,2002:python/\n---\nx: !p!object/apply:os.system ['true']\n"
    yield _input(
        "yaml-tag",
        "the same under a shorthand of its own",
        "YAML 1.2, 6.8.2: tag directives",
        "config.yml",
        tagged,
        "code.yaml-object",
    )
    token = "hf_" + "aBcD" * 8 + "eF"
    yield _input(
        "token",
        "a Hugging Face token in a log",
        "Lasso Security 2023: 1,600 tokens in public repositories",
        "train.log",
        f"login with {token}\n",
        "code.secret",
    )
    lines = "\n".join(["A1b2C3d4" * 8] * 12)
    key = f"-----BEGIN OPENSSH {'PRIVATE'} KEY-----\n{lines}\n-----END OPENSSH {'PRIVATE'} KEY-----\n"
    yield _input("private-key", "a private key", "CWE-312", "deploy_key", key, "code.secret")
    aws = "AKIA" + "IOSFODNN7TESTING"
    yield _input(
        "aws",
        "an access key in a notebook's output",
        "CWE-312",
        "demo.ipynb",
        json.dumps({"nbformat": 4, "cells": [], "x": aws}),
        "code.secret",
    )
