"""Starts an engine on a served tree and ends it again, with everything it started; or reaches one that runs.

The engine is a child that reads hostile files: it has no network, listens on a unix socket in a folder of its own and
sees the model read-only. It counts as ready when it has answered a real completion, not when its port opens.
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from subprocess import Popen
from urllib.parse import urlsplit

from modelctl.errors import CannotDecideError, InputError
from modelctl.isolation import Child, Sandbox
from modelctl.model.release import Serving
from modelctl.model.tree import Tree
from modelctl.progress import Progress, Task
from modelctl.serving.adapters import ServedAdapter
from modelctl.serving.client import EngineClient
from modelctl.serving.command import SERVED_NAME, engine_command, engine_flags, flags_in_force, gpu_devices
from modelctl.serving.describe import NoSuchModelError, describe
from modelctl.serving.endpoint import Endpoint
from modelctl.serving.engine_log import blames_machine, last_errors
from modelctl.serving.named_files import named_files
from modelctl.settings import Engine
from modelctl.watching import end, resident_bytes

LOG_NAME = "engine.log"
_SOCKET_PATH_LIMIT = 107
_POLL_S = 0.5
_MEMORY_POLL_S = 1.0
_END_GRACE_S = 10.0
_FIRST_ANSWER_LIMIT_S = 300.0
_FIRST_ANSWER_TRIES = 3
_FIRST_PROMPT = "The first answer of an engine is"
_KILLED = 128 + signal.SIGKILL


class EngineRefusedError(CannotDecideError):
    """The engine ended by itself while it loaded this model: a finding of the stress checks, not a fault of the
    machine."""

    def __init__(self, message: str, *, log: Path) -> None:
        super().__init__(
            message, remedy="change the quantisation or the serving section, or use an engine that supports this model"
        )
        self.log = log


@contextmanager
def start_engine(
    tree: Tree,
    serving: Serving,
    settings: Engine,
    *,
    sandbox: Sandbox,
    folder: Path,
    progress: Progress,
    adapter: ServedAdapter | None = None,
) -> Iterator[Endpoint]:
    """An engine that serves `tree`, for the time of a `with` block; its log is `folder/engine.log`. With an `adapter`
    the tree is its base, and the endpoint's model is the adapter.

    Raises `EngineRefusedError` when it ended by itself while loading the model, `CannotDecideError` when it can't be
    started here or is not ready in time. It is ended on every way out, Ctrl-C included.
    """
    gpu = bool(gpu_devices())
    with tempfile.TemporaryDirectory(prefix="mctl-", dir=_short_folder()) as run:
        socket = Path(run) / "s"
        flags = engine_flags(serving, socket=socket, gpu=gpu, adapter=adapter)
        child = Child(
            argv=engine_command(settings, tree.root, flags),
            readable=(*tree.folders, *(adapter.tree.folders if adapter else ()), *named_files(settings)),
            writable=[Path(run)],
            env={"VLLM_NO_USAGE_STATS": "1", **settings.env},
            devices=gpu,
        )
        folder.mkdir(parents=True, exist_ok=True)
        keeper = _Keeper(sandbox, child, log=folder / LOG_NAME, memory_limit_gib=settings.memory_limit_gib)
        try:
            process = keeper.start()
            with progress.task("start the engine", total=None, unit="seconds") as task:
                endpoint = _wait_until_ready(
                    keeper, socket, SERVED_NAME if adapter else "", timeout_s=settings.start_timeout_s, task=task
                )
            yield replace(
                endpoint,
                managed=True,
                flags=flags_in_force(flags, settings.args),
                log=keeper.log,
                pid=process.pid,
            )
        finally:
            keeper.stop()


def attach(url: str, *, api_key: str | None = None) -> Endpoint:
    """A running engine at `http(s)://host:port`, a trailing `/v1` taken off; or at `unix:/path/of/socket`.

    Raises `InputError` for something that is no URL, `CannotDecideError` when no OpenAI-compatible engine answers
    there.
    """
    parts = urlsplit(url)
    if parts.scheme == "unix" and parts.path:
        where = Endpoint(
            base_url="http://engine", model="", max_model_len=None, socket=Path(parts.path), api_key=api_key
        )
        return asyncio.run(describe(where))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"'{url}' is no engine URL", remedy="write http://host:port or unix:/path")
    base = url.rstrip("/").removesuffix("/v1").rstrip("/")
    if urlsplit(base).path:
        raise InputError(f"'{url}' has a path that is not /v1", remedy=f"write {parts.scheme}://{parts.netloc}")
    return asyncio.run(describe(Endpoint(base_url=base, model="", max_model_len=None, api_key=api_key)))


class _Keeper:
    """Starts the engine in a thread that lives as long as the engine, and watches its memory.

    The kernel ends an isolated child when the thread that started it ends, and checks may run in threads of their own.
    """

    def __init__(self, sandbox: Sandbox, child: Child, *, log: Path, memory_limit_gib: float) -> None:
        self.log = log
        self.exceeded: str | None = None
        self._sandbox = sandbox
        self._child = child
        self._memory_limit_gib = memory_limit_gib
        self._process: Popen[bytes] | None = None
        self._error: CannotDecideError | None = None
        self._started = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="engine-keeper", daemon=True)

    def start(self) -> Popen[bytes]:
        self._thread.start()
        self._started.wait()
        if self._process is None:
            raise self._error or CannotDecideError("the engine did not start")
        return self._process

    def returncode(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def stop(self) -> None:
        if self._process is not None:
            end(self._process, grace_s=_END_GRACE_S)
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=_END_GRACE_S)

    def _run(self) -> None:
        try:
            with self.log.open("wb") as output:
                self._process = self._sandbox.start(self._child, stdout=output, stderr=output)
        except CannotDecideError as error:
            self._error = error
        except OSError as error:
            self._error = CannotDecideError(f"cannot write {self.log}: {error.strerror}")
        finally:
            self._started.set()
        while self._process is not None and self._process.poll() is None and not self._stopping.wait(_MEMORY_POLL_S):
            used_gib = resident_bytes(self._process.pid) / (1 << 30)
            if used_gib > self._memory_limit_gib:
                self.exceeded = f"the engine uses {used_gib:.1f} GiB, the limit is {self._memory_limit_gib:g} GiB"
                end(self._process, grace_s=1.0)


def _wait_until_ready(keeper: _Keeper, socket: Path, model: str, *, timeout_s: float, task: Task) -> Endpoint:
    begin = before = time.monotonic()
    failures: list[str] = []
    while True:
        if keeper.returncode() is not None:
            raise _ended(keeper)
        if socket.exists():
            answered = asyncio.run(_first_answer(socket, model))
            if isinstance(answered, Endpoint):
                return answered
            if answered is not None:
                failures.append(answered)
        if len(failures) >= _FIRST_ANSWER_TRIES and keeper.returncode() is None:
            raise EngineRefusedError(
                f"the engine loaded the model but does not complete a prompt: {failures[-1]}", log=keeper.log
            )
        now = time.monotonic()
        if now - begin > timeout_s:
            raise CannotDecideError(
                f"the engine was not ready after {timeout_s:g} s: {' | '.join(last_errors(keeper.log)) or 'no words'}",
                remedy=f"see {keeper.log}, or raise engine.start_timeout_s",
            )
        task.advance(now - before)
        task.describe("first answer" if socket.exists() else "loading")
        before = now
        time.sleep(_POLL_S)


async def _first_answer(socket: Path, model: str) -> Endpoint | str | None:
    """The endpoint once it completed a prompt, why it did not, or None when it does not even list its models. `model`
    is the one to ask; empty: its first."""
    try:
        endpoint = await describe(Endpoint(base_url="http://engine", model=model, max_model_len=None, socket=socket))
    except NoSuchModelError as error:
        return error.message
    except CannotDecideError:
        return None
    limit = _FIRST_ANSWER_LIMIT_S
    async with EngineClient(endpoint, silence_limit_s=limit, time_limit_s=limit) as client:
        answer = await client.complete(_FIRST_PROMPT, answer_tokens=4, exact_answer=False)
        if answer.row.failure == "http":  # an embedding model writes nothing
            vector = await client.complete(_FIRST_PROMPT, answer_tokens=1, exact_answer=False, api="embeddings")
            answer = vector if vector.row.failure is None else answer
    return endpoint if answer.row.failure is None else answer.row.detail or answer.row.failure


def _ended(keeper: _Keeper) -> CannotDecideError:
    if keeper.exceeded:
        return CannotDecideError(keeper.exceeded, remedy="raise engine.memory_limit_gib, or use a larger machine")
    status = keeper.returncode()
    lines = last_errors(keeper.log)
    words = " | ".join(lines) or "no words"
    if status in (-signal.SIGKILL, _KILLED):
        return CannotDecideError(
            f"the engine was killed while it started, which is what a machine without memory does: {words}",
            remedy=f"free memory or use a larger machine; see {keeper.log}",
        )
    setting = blames_machine(lines)
    if setting is not None:
        return CannotDecideError(
            f"the engine does not run here (status {status}): {words}",
            remedy=f"mend {setting} (MODELCTL_{setting.replace('.', '_').upper()}); see {keeper.log}",
        )
    return EngineRefusedError(f"the engine cannot load this model (status {status}): {words}", log=keeper.log)


def _short_folder() -> Path:
    """A folder for temporary files whose path leaves room for a socket's."""
    for name in (tempfile.gettempdir(), "/tmp", "/var/tmp"):  # noqa: S108 - a private folder is made in it
        if len(name) + len("/mctl-12345678/s") <= _SOCKET_PATH_LIMIT and Path(name).is_dir():
            return Path(name)
    raise CannotDecideError("no folder with a short path for the engine's socket", remedy="set TMPDIR to a short path")
