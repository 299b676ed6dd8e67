"""What Python names lead to: the functions and modules that start programs, run text as code, load machine code, look
into the interpreter or reach the network.

A list of what is refused can't be complete. It is long because the names are known: what the standard library and the
libraries beside a model offer, and what published attacks on model loaders used. What is built at run time to escape
it is refused for being built.
"""

from __future__ import annotations

from typing import Literal

Rule = Literal["process", "dynamic-code", "native-code", "introspection", "network", "trust-remote-code"]

_PROCESS = """
os.system os.popen os.exec os.spawn os.posix_spawn os.fork os.startfile os.kill os.putenv os.add_dll_directory
posix. nt. subprocess. _posixsubprocess. commands. popen2. pty. pip. ensurepip. pexpect. ptyprocess. sh. plumbum.
asyncio.create_subprocess asyncio.subprocess asyncio.unix_events asyncio.windows_events multiprocessing.util.spawnv
multiprocessing.popen_ multiprocessing.forkserver distutils. setuptools._distutils numpy.distutils platform.popen
webbrowser. torch.utils.collect_env torch.distributed.run torch.distributed.launch torch.distributed.elastic win32com.
winreg. IPython.get_ipython().system IPython.get_ipython().getoutput
"""
_DYNAMIC = """
builtins.eval builtins.exec builtins.compile builtins.getattr builtins.setattr builtins.open builtins.globals
builtins.vars builtins.locals builtins.input builtins.breakpoint builtins.__
importlib.import_module importlib.machinery importlib.util.module_from_spec importlib.util.spec_from
importlib.util.LazyLoader importlib.__import__ importlib._bootstrap importlib.reload importlib.find_loader
importlib.resources.simple runpy. imp. zipimport. code.interact code.Interactive code.compile codeop. marshal.
pkgutil.resolve_name pkgutil.get_loader pkgutil.find_loader pydoc. types.CodeType types.FunctionType types.LambdaType
sys.settrace sys.setprofile sys.meta_path sys.path_hooks sys.path_importer_cache sys.displayhook sys.monitoring
site.addsitedir timeit. cProfile. profile. pdb. bdb. trace.Trace doctest. unittest.mock._importer tkinter. _tkinter.
_interpreters. _xxsubinterpreters. concurrent.interpreters logging.config. pickle.load pickle._load pickle.Unpickler
pickle._Unpickler pickle.Pickler.reducer_override _pickle. cPickle. dill. cloudpickle. jsonpickle. shelve. joblib.load
joblib.numpy_pickle pandas.read_pickle pandas.io.pickle pandas.eval numexpr. sympy.sympify sympy.parse_expr
sympy.parsing numpy.f2py numpy.testing.runstring numpy.testing.rundocs numpy.testing._private torch.hub.load
torch.hub._ torch.package. torch.jit.load torch.jit._serialization torch.jit.CompilationUnit torch.distributed.rpc
torch.storage._load_from_bytes yaml.unsafe_load yaml.UnsafeLoader yaml.full_load yaml.Loader yaml.FullLoader
transformers.dynamic_module_utils transformers.utils.import_utils.direct_transformers_import
diffusers.utils.dynamic_modules_utils cython.inline pyximport. RestrictedPython. asteval. execnet. rpyc.
"""
_NATIVE = """
ctypes. _ctypes. cffi. _cffi_backend. llvmlite. numpy.ctypeslib torch.ops.load_library torch.classes.load_library
torch.utils.cpp_extension torch._inductor.codecache torch._C._ tensorflow.load_op_library tensorflow.load_library
jax.ffi kernels.get_kernel kernels.get_local_kernel kernels.get_locked_kernel kernels.load_kernel kernels.use_kernel
_imp.
"""
_INSIGHT = """
inspect.currentframe inspect.stack inspect.getinnerframes inspect.getouterframes inspect.trace inspect.getclosurevars
sys._getframe sys._current_frames gc.get_ gc.
"""
_NETWORK = """
socket. http.client http.server urllib.request urllib3. requests. httpx. aiohttp. ftplib. smtplib. telnetlib. poplib.
imaplib. nntplib. xmlrpc. socketserver. paramiko. websocket. websockets. boto3. huggingface_hub.hf_hub_download
huggingface_hub.snapshot_download huggingface_hub.HfApi huggingface_hub.upload wget. pycurl. torch.utils.model_zoo
"""
_TABLES: tuple[tuple[Rule, str], ...] = (
    ("process", _PROCESS),
    ("dynamic-code", _DYNAMIC),
    ("native-code", _NATIVE),
    ("introspection", _INSIGHT),
    ("network", _NETWORK),
)
_PREFIXES: dict[str, Rule] = {prefix: rule for rule, text in _TABLES for prefix in text.split()}
_HARMLESS = ("gc.collect", "gc.disable", "gc.enable", "gc.isenabled", "gc.freeze", "timeit.default_timer",
             "torch._C._nn", "torch._C._functorch", "torch._C._distributed_c10d", "torch._C._autograd",
             "torch._C._log_api_usage_once", "joblib.load_parallel", "torch.hub.load_state_dict_from_url",
             "torch.hub.download_url_to_file", "transformers.dynamic_module_utils.custom_object_save")  # fmt: skip
"""Names under a prefix above that do nothing of the kind."""

BUILTINS = frozenset({"eval", "exec", "__import__", "execfile"})
CALLED_BUILTINS = frozenset({"compile", "breakpoint"})
INSIDES = frozenset(
    {
        "__globals__", "__subclasses__", "__builtins__", "__builtin__", "__code__", "__bases__", "__base__",
        "__mro__", "__closure__", "__import__", "__getattribute__", "__loader__", "__spec__", "__reduce_ex__",
        "f_globals", "f_locals", "f_back", "f_builtins", "f_code", "tb_frame", "gi_frame", "gi_code", "cr_frame",
        "cr_code", "ag_frame", "ag_code", "func_globals", "func_code", "co_code", "co_consts",
    }
)  # fmt: skip
SENSITIVE = frozenset(
    {
        "os", "sys", "posix", "nt", "builtins", "subprocess", "importlib", "ctypes", "pty", "shutil", "marshal",
        "pickle", "_pickle", "dill", "cloudpickle", "runpy", "imp", "code", "codeop", "pkgutil", "zipimport",
        "_posixsubprocess", "commands", "pip", "site",
    }
)  # fmt: skip
"""Modules that may not be handed on as a value: what is then done with them can't be read."""
REEXPORTED = frozenset({"os", "sys", "posix", "builtins", "subprocess", "importlib"})
"""Modules that others carry along: `random._os.system` is `os.system`."""
_METHODS: tuple[tuple[Rule, str], ...] = (
    ("process", "system popen Popen check_output check_call getoutput getstatusoutput execv execve execvp execvpe"),
    ("process", "posix_spawn subprocess_exec subprocess_shell run_line_magic run_cell_magic run_cell system_piped"),
    ("dynamic-code", "exec exec_module load_module import_module find_class"),
    ("native-code", "load_library LoadLibrary load_extension enable_load_extension"),
)
CALLED_METHODS: dict[str, Rule] = {name: rule for rule, names in _METHODS for name in names.split()}
"""Methods refused on whatever object they are called: no module was named that could be looked up."""
BUILT_NAMES = frozenset({
    *BUILTINS, *INSIDES, *SENSITIVE, "compile", "system", "popen", "Popen", "loads", "import_module", "__class__",
    "__dict__", "os.system", "os.popen",
}) - {"code", "site", "imp", "pip"}  # fmt: skip
"""Names that nobody writes in pieces for a good reason."""


_BY_MODULE: dict[str, list[tuple[str, Rule]]] = {}
for _prefix, _rule in _PREFIXES.items():
    _BY_MODULE.setdefault(_prefix.partition(".")[0] + ".", []).append((_prefix, _rule))


def rule_of(dotted: str) -> Rule | None:
    """The rule that a name such as `os.system` breaks. Of two prefixes the first counts."""
    if dotted.startswith(_HARMLESS):
        return None
    head = dotted.partition(".")[0] + "."
    for prefix, rule in _BY_MODULE.get(head, ()):
        if dotted.startswith(prefix):
            return rule
    return None
