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
        ("from os import system", "process"),
        ("from random import _os\n_os.getcwd()", "dynamic-code"),
        ("from subprocess import *", "dynamic-code"),
        ("from torch.utils.collect_env import run", "process"),
        ("import os\nif (o := os): o.listdir()", "dynamic-code"),
        ("import torch as t\nu = t\nv = u.load\nv('x')", "dynamic-code"),
        ("import torch\ndef f(t=torch):\n    return t.load('x')", "dynamic-code"),
        ("import torch, json\na, b = json, torch\nb.load('x')", "dynamic-code"),
        ("import torch\ngetattr(torch, 'lo' + 'ad')('x')", "dynamic-code"),
        ("import torch\ntorch.load('x')", "dynamic-code"),
        ("import torch\ntorch.load('x', weights_only=False)", "dynamic-code"),
        ("import torch\nread = [torch.load]", "dynamic-code"),
        ("import torch\ntorch.hub.load('a/b', 'c')", "dynamic-code"),
        ("import pickle\npickle.loads(b'')", "dynamic-code"),
        ("from pickle import Unpickler\nUnpickler(f)", "dynamic-code"),
        ("import numpy as np\nnp.load('x', allow_pickle=True)", "dynamic-code"),
        ("import numpy as np\nnp.load('x', None, True)", "dynamic-code"),
        ("import yaml\nyaml.load(x)", "dynamic-code"),
        ("import timeit\ntimeit.timeit('x')", "dynamic-code"),
        ("import sys\nsys.path.append('/tmp')\nimport x", "dynamic-code"),
        ("import sys\nsys.path[:] = []\nsys.path = ['/tmp']", "dynamic-code"),
        ("import sys\nsys.modules.get('os')", "dynamic-code"),
        ("open('/usr/x.pth', 'w').write('import os')", "dynamic-code"),
        ("globals()['ev' + 'al']('1')", "dynamic-code"),
        ("globals()[x]('1')", "dynamic-code"),
        ("g = globals()", "dynamic-code"),
        ("globals()['eval']('1')", "dynamic-code"),
        ("import builtins\nbuiltins.eval('1')", "dynamic-code"),
        ("globals().get(x)", "dynamic-code"),
        ("getattr(getattr(m, x), y)", "dynamic-code"),
        ("m['o' + 's']", "dynamic-code"),
        ("f(''.join(['e', 'v', 'a', 'l']))", "dynamic-code"),
        ("f('metsys'[::-1])", "dynamic-code"),
        ("f(chr(101) + 'val')", "dynamic-code"),
        ("f('%s%s' % ('ex', 'ec'))", "dynamic-code"),
        ("f(f'{\"ev\"}al')", "dynamic-code"),
        ("f(bytes.fromhex('6576616c').decode())", "dynamic-code"),
        ("import base64\nf(base64.b64decode('c3lzdGVt').decode())", "dynamic-code"),
        ("import codecs\nf(codecs.decode('riny', 'rot13'))", "dynamic-code"),
        ("f('{}{}'.format('sys', 'tem'))", "dynamic-code"),
        ("m[0].system('x')", "process"),
        ("(lambda: m)().popen('x')", "process"),
        ("get_ipython().run_cell_magic('bash', '', 'ls')", "process"),
        ("get_ipython().system('ls')", "process"),
        ("print.__self__", "introspection"),
        ("from operator import attrgetter\nattrgetter('__globals__')(f)", "introspection"),
        ("'{0.__class__}'.format(x)", "introspection"),
        ("x['__import__']", "introspection"),
        ("𝓮𝔁𝓮𝓬('1')", "dynamic-code"),
        ("@exec\ndef f(): pass", "dynamic-code"),
        ("f'{eval(\"1\")}'", "dynamic-code"),
        ("class A:\n    def __reduce__(self):\n        return (eval, ('1',))", "dynamic-code"),
        ("import os\nos.kill(1, 9)", "process"),
        ("import torch\ntorch.utils.cpp_extension.load_inline('x', '')", "native-code"),
        ("from kernels import get_kernel\nget_kernel('a/b')", "native-code"),
        ("AutoModel.from_pretrained('a/b', trust_remote_code=True)", "trust-remote-code"),
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
        "import torch\ngetattr(torch, name)\ntorch.load('x', map_location='cpu', weights_only=True)",
        "import numpy as np\nnp.load('x')\nnp.load('x', allow_pickle=False)",
        "import yaml\nyaml.load(x, Loader=yaml.SafeLoader)\nyaml.safe_load(x)",
        "import gc\ngc.collect()",
        "import builtins\nbuiltins.int\nmetrics['eval']",
        "import torch.nn.functional as F\nact = getattr(F, config.act)\nact(x)",
        "globals()['__file__']\nx in globals()\nlocals()",
        "open('vocab.txt', 'w').write('a')\nopen('x.py').read()",
        "name = 'a' + 'b'\n'{}-{}'.format('a', 1)\n'%s' % x",
        "self.system = prompt\nprint(self.system, config.os)",
        "from six.moves import x\nfrom . import os",
        "model.eval()\nre.compile(x)\nAutoModel.from_pretrained(x, trust_remote_code=False)",
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
