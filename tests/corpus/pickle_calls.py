"""Pickles that call a function: the plain one, and the gadgets by which lists of bad names were passed.

All lie in a file that torch.load would read, with a harmless argument.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.corpus.base import Input
from tests.corpus.containers import torch_file
from tests.corpus.streams import call, program, stacked

GROUP = "pickle calls"
RULES = ("malware.pickle-import",)
_ADVISORY = "picklescan advisory"

_CALLS: tuple[tuple[str, str, str, str], ...] = (
    ("os-system", "os", "system", "Python docs, pickle: 'Restricting Globals' has this very example"),
    ("posix-system", "posix", "system", "Python docs, pickle: what os.system becomes when it is pickled on Linux"),
    ("nt-system", "nt", "system", "Python docs, pickle: what os.system becomes when it is pickled on Windows"),
    ("subprocess-popen", "subprocess", "Popen", "ReversingLabs 2025, nullifAI: payloads of models on the Hub"),
    ("builtins-eval", "builtins", "eval", "JFrog 2024: about a hundred models on the Hub with such payloads"),
    ("builtins-exec", "__builtin__", "exec", "JFrog 2024, with the module name of Python 2"),
    ("webbrowser-open", "webbrowser", "open", "protectai/modelscan, the list of its unsafe names"),
    ("pip-main", "pip", "main", "CVE-2025-1716, GHSA-655q-fx9r-782v (picklescan)"),
    ("pip-internal", "pip._internal.cli.main", "main", "promptfoo/modelaudit#598, after CVE-2025-1716"),
    ("ensurepip", "ensurepip", "_run_pip", f"{_ADVISORY} GHSA-xp4f-hrf8-rxw7"),
    ("asyncio-transport", "asyncio.unix_events", "_UnixSubprocessTransport._start", "CVE-2025-10157 (picklescan)"),
    ("resolve-name", "pkgutil", "resolve_name", "promptfoo 2026, 'Open-Sourcing ModelAudit': it bypasses any list"),
    ("torch-collect-env", "torch.utils.collect_env", "run", f"{_ADVISORY} GHSA-f745-w6jp-hpxx"),
    ("torch-config-module", "torch.utils._config_module", "load_config", f"{_ADVISORY} GHSA-vv6j-3g6g-2pvj"),
    ("torch-jit-exec", "torch.jit.unsupported_tensor_ops", "execWrapper", f"{_ADVISORY} GHSA-vr7h-p6mm-wpmh"),
    ("torch-decoder", "torch.utils.data.datapipes.utils.decoder", "basichandlers", f"{_ADVISORY} GHSA-h3qp-7fh3-f8h4"),
    (
        "torch-bottleneck", "torch.utils.bottleneck.__main__", "run_autograd_prof",
        f"{_ADVISORY} GHSA-4whj-rm5r-c2v8",
    ),
    ("torch-guard-get", "torch._dynamo.guards", "GuardBuilder.get", f"{_ADVISORY} GHSA-86cj-95qr-2p4f"),
    (
        "torch-shape-env", "torch.fx.experimental.symbolic_shapes", "ShapeEnv.evaluate_guards_expression",
        f"{_ADVISORY} GHSA-f4x7-rfwp-v3xw",
    ),
    ("torch-rpc", "torch.distributed.rpc", "rpc_sync", "CVE-2024-5480 and promptfoo/modelaudit#595"),
    ("torch-remote-module", "torch.distributed.nn.api.remote_module", "RemoteModule", "CVE-2024-48063, modelaudit#595"),
    ("torch-parse-type", "torch.jit.annotations", "parse_type_line", "CVE-2022-45907, promptfoo/modelaudit#595"),
    ("torch-load", "torch.serialization", "load", "nested pickles: picklescan advisory GHSA-84r2-jw7c-4r5q"),
    ("numpy-f2py", "numpy.f2py.crackfortran", "getlincoef", "trailofbits/fickling#210: bypasses of picklescan"),
    ("idlelib-runcode", "idlelib.run", "Executive.runcode", f"{_ADVISORY} GHSA-m869-42cg-3xwr"),
    ("idlelib-pyshell", "idlelib.pyshell", "ModifiedInterpreter.runcommand", f"{_ADVISORY} GHSA-j343-8v2j-ff7w"),
    ("idlelib-tree", "idlelib.debugobj", "ObjectTreeItem", f"{_ADVISORY} GHSA-3vg9-h568-4w9m"),
    ("doctest-debug", "doctest", "debug_script", f"{_ADVISORY} GHSA-fqq6-7vqf-w3fg"),
    ("cprofile-runctx", "cProfile", "runctx", f"{_ADVISORY} GHSA-9w88-8rmg-7g2p"),
    ("profile-run", "profile", "Profile.run", f"{_ADVISORY} GHSA-x696-vm39-cp64"),
    ("trace-run", "trace", "Trace.run", f"{_ADVISORY} GHSA-5qwp-399c-mjwf"),
    ("lib2to3-loads", "lib2to3.pgen2.grammar", "Grammar.loads", f"{_ADVISORY} GHSA-f54q-57x4-jg88"),
    ("pydoc-locate", "pydoc", "locate", "CVE-2026-22608 (fickling)"),
    ("ctypes-cdll", "ctypes", "CDLL", "CVE-2026-22608 (fickling)"),
    ("imaplib-stream", "imaplib", "IMAP4_stream", "CVE-2026-56315 (picklescan): names of the standard library"),
    ("pyrepl-pager", "_pyrepl.pager", "pipe_pager", "CVE-2026-56315 (picklescan)"),
    ("osx-support", "_osx_support", "_read_output", "CVE-2026-56315 (picklescan)"),
    ("aix-support", "_aix_support", "_read_cmd_output", "CVE-2026-56315 (picklescan)"),
    ("uuid-command", "uuid", "_get_command_stdout", "CVE-2026-56315 (picklescan)"),
    ("write-file", "distutils.file_util", "write_file", "CVE-2025-10155, trailofbits/fickling#210: it writes files"),
    ("file-io", "_io", "FileIO", "trailofbits/fickling#210: files are opened and emptied"),
    ("requests-get", "requests.api", "get", f"{_ADVISORY} GHSA-hgrh-qx5j-jfwx: the network"),
    ("smtplib", "smtplib", "SMTP", "fickling advisory GHSA-mhc9-48gj-9gp3: connections outwards"),
    ("operator-caller", "operator", "methodcaller", f"{_ADVISORY} GHSA-m273-6v24-x4m4"),
    ("operator-getter", "_operator", "attrgetter", f"{_ADVISORY} GHSA-955r-x9j8-7rhh"),
    ("functools-partial", "functools", "partial", "trailofbits/fickling#210: a wrapper for any call"),
    ("builtins-getattr", "builtins", "getattr", "arXiv 2508.19774: gadgets that reach further names"),
    ("bdb-run", "bdb", "Bdb.run", f"{_ADVISORY} GHSA-4675-36f9-wf6r"),
)  # fmt: skip


def inputs() -> Iterator[Input]:
    """Each name once: every third as a bare pickle, the others in the zip that torch.save writes."""
    for number, (name, module, function, report) in enumerate(_CALLS):
        whole = program(stacked(module, function), protocol=4) if "." in function else call(module, function)
        bare = number % 3 == 0
        yield Input(
            id=f"call-{name}",
            group=GROUP,
            what=f"{'a bare pickle' if bare else 'a torch zip'} that calls {module}.{function}",
            report=report,
            files={"pytorch_model.bin": whole if bare else torch_file(whole)},
            rules=RULES,
        )
