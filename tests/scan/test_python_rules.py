"""Names are followed through imports and values, and ordinary modelling code is left alone."""

from __future__ import annotations

import ast

import pytest

from modelctl.scan.python_rules import is_code, mentions


def rules(source: str) -> list[str]:
    return [mention.rule for mention in mentions(ast.parse(source))]


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("import os\nos.system('true')", "process"),
        ("import os as o\nrun = o.popen", "process"),
        ("from os import system as s\ns('true')", "process"),
        ("import os.path\nos.execv('/bin/true', [])", "process"),
        ("import subprocess\nsubprocess.run(['true'])", "process"),
        ("from subprocess import Popen\nPopen", "process"),
        ("from asyncio import create_subprocess_exec as c\nc", "process"),
        ("import random\nrandom._os.system('true')", "dynamic-code"),
        ("import os\nx = os", "dynamic-code"),
        ("import os\ngetattr(os, 'sys' + 'tem')('true')", "dynamic-code"),
        ("import os\nos.__dict__['system']", "dynamic-code"),
        ("from os import *", "dynamic-code"),
        ("import sys\nsys.modules['os']", "dynamic-code"),
        ("eval('1')", "dynamic-code"),
        ("f = exec", "dynamic-code"),
        ("def f():\n    from json import loads as eval\neval('1')", "dynamic-code"),
        ("import os as o\no.system('x')\ndef f():\n    import json as o", "process"),
        ("__import__('os')", "dynamic-code"),
        ("compile('1', '', 'eval')", "dynamic-code"),
        ("import importlib\nimportlib.import_module('os')", "dynamic-code"),
        ("import marshal\nmarshal.loads(b'')", "dynamic-code"),
        ("import runpy\nrunpy.run_path('x')", "dynamic-code"),
        ("import ctypes\nctypes.CDLL('x')", "native-code"),
        ("from torch.utils.cpp_extension import load\nload('x')", "native-code"),
        ("import torch\ntorch.ops.load_library('x')", "native-code"),
        ("().__class__.__bases__", "introspection"),
        ("x.__init__.__globals__", "introspection"),
        ("getattr(x, '__subclasses__')", "introspection"),
        ("__builtins__", "introspection"),
        ("import requests\nrequests.get('x')", "network"),
    ],
)
def test_what_a_model_has_no_need_of_is_seen(source: str, rule: str) -> None:
    assert rule in rules(source)


@pytest.mark.parametrize(
    "source",
    [
        "import os\nos.path.join('a', 'b')\nos.environ.get('X')\nos.makedirs('x')",
        "import re, torch\nre.compile('x')\ntorch.compile(f)\nmodel.eval()",
        "import importlib.util\nimportlib.util.find_spec('flash_attn')",
        "import sys\nsys.modules[__name__]\nsys.exit(1)",
        "class A:\n    def __init__(self):\n        self.__class__.__name__\n        self.__dict__.update({})",
        "x = array.ctypes.data",
        "getattr(torch, 'float16')",
    ],
)
def test_ordinary_code_is_left_alone(source: str) -> None:
    assert rules(source) == []


def test_a_place_is_told_once_with_its_line() -> None:
    found = mentions(ast.parse("import subprocess\n\nsubprocess.run(subprocess.list2cmdline([]))"))
    assert [(item.line, item.rule) for item in found] == [(3, "process")]


@pytest.mark.parametrize(("text", "code"), [("hello", False), ("a: 1", False), ("1", False), ("f(1)", True)])
def test_a_text_that_parses_is_not_always_code(text: str, code: bool) -> None:
    assert is_code(ast.parse(text)) is code
