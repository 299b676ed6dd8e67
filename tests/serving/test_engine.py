from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import psutil
import pytest

from modelctl.errors import CannotDecideError, InputError
from modelctl.isolation import Sandbox
from modelctl.model.release import Serving
from modelctl.model.tree import Tree, scan_tree
from modelctl.progress import SILENT
from modelctl.serving.describe import describe
from modelctl.serving.engine import EngineRefusedError, attach, start_engine
from modelctl.settings import Engine
from tests.support.engine import FaultEngine

ROOT = Path(__file__).parents[2]
GOOD = Engine(
    command=f"{sys.executable} -m tests.support.engine {{model}}",
    env={"PYTHONPATH": str(ROOT)},
    start_timeout_s=60,
)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return scan_tree(folder)


def start(tree: Tree, settings: Engine, folder: Path, sandbox: Sandbox | None = None):  # type: ignore[no-untyped-def]
    serving = Serving(max_model_len=256, max_num_seqs=4)
    return start_engine(tree, serving, settings, sandbox=sandbox or Sandbox("none"), folder=folder, progress=SILENT)


def test_ready_means_that_it_answered_and_it_is_gone_afterwards(tree: Tree, tmp_path: Path) -> None:
    with start(tree, GOOD, tmp_path / "run") as endpoint:
        assert endpoint.managed
        assert endpoint.max_model_len == 256
        assert endpoint.version == "0.0-fault"
        assert endpoint.flags["--max-num-seqs"] == "4"
        assert endpoint.log == tmp_path / "run" / "engine.log"
        assert endpoint.socket is not None
        assert len(str(endpoint.socket)) < 107
        assert psutil.pid_exists(endpoint.pid)
    assert not psutil.pid_exists(endpoint.pid)
    assert not endpoint.socket.parent.exists()
    assert b"loading" in endpoint.log.read_bytes()


def test_it_outlives_the_thread_that_asked_for_it(tree: Tree, tmp_path: Path) -> None:
    context = start(tree, GOOD, tmp_path / "run")
    got = []
    thread = threading.Thread(target=lambda: got.append(context.__enter__()))
    thread.start()
    thread.join()
    try:
        time.sleep(0.3)
        assert psutil.Process(got[0].pid).status() != psutil.STATUS_ZOMBIE
    finally:
        context.__exit__(None, None, None)


def test_an_engine_that_ends_while_it_loads_refuses_the_model(tree: Tree, tmp_path: Path) -> None:
    command = "/bin/sh -c 'echo ValueError: 8-bit is not supported; exit 1' {model}"
    with pytest.raises(EngineRefusedError, match="8-bit is not supported") as caught:
        start(tree, Engine(command=command), tmp_path / "run").__enter__()
    assert caught.value.log == tmp_path / "run" / "engine.log"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo No module named vllm; exit 1", "does not run here"),
        ("echo vllm: error: unrecognized arguments: --x; exit 2", "does not run here"),
        ("kill -9 $$", "was killed"),
    ],
)
def test_an_engine_that_does_not_run_here_says_nothing_of_the_model(
    tree: Tree, tmp_path: Path, script: str, words: str
) -> None:
    with pytest.raises(CannotDecideError, match=words) as caught:
        start(tree, Engine(command=f"/bin/sh -c '{script}' {{model}}"), tmp_path / "run").__enter__()
    assert not isinstance(caught.value, EngineRefusedError)


@pytest.mark.slow
def test_an_engine_that_never_gets_ready_is_undecided_and_ended(tree: Tree, tmp_path: Path) -> None:
    settings = Engine(command="/bin/sh -c 'echo $$ > $0/../pid; sleep 600' {model}", start_timeout_s=5)
    settings = settings.model_copy(update={"start_timeout_s": 2})
    with pytest.raises(CannotDecideError, match="not ready after 2 s") as caught:
        start(tree, settings, tmp_path / "run").__enter__()
    assert "engine.start_timeout_s" in (caught.value.remedy or "")
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


def test_an_engine_over_its_memory_limit_is_ended(tree: Tree, tmp_path: Path) -> None:
    hungry = "import time; kept = bytearray(200 << 20); time.sleep(600)"
    settings = Engine(command=f"{sys.executable} -c '{hungry}' {{model}}", memory_limit_gib=0.1)
    with pytest.raises(CannotDecideError, match=r"the limit is 0.1 GiB") as caught:
        start(tree, settings, tmp_path / "run").__enter__()
    assert not isinstance(caught.value, EngineRefusedError)


def test_in_the_sandbox_it_sees_the_model_read_only(tree: Tree, tmp_path: Path) -> None:
    assert Sandbox().kind == "bubblewrap", "this test needs bubblewrap: apt-get install bubblewrap"
    script = "touch $0/x 2>&1; cat $0/config.json; echo ValueError: done; exit 1"
    with pytest.raises(EngineRefusedError):
        start(tree, Engine(command=f"/bin/sh -c '{script}' {{model}}"), tmp_path / "run", Sandbox()).__enter__()
    log = (tmp_path / "run" / "engine.log").read_text()
    assert "Read-only file system" in log
    assert "{}" in log
    assert not (tree.root / "x").exists()


def test_in_the_sandbox_it_reads_a_file_that_its_arguments_name(tree: Tree, tmp_path: Path) -> None:
    template = tmp_path / "elsewhere" / "chat.jinja"
    template.parent.mkdir()
    template.write_text("words of a template")
    command = "/bin/sh -c 'for last; do :; done; cat $last; echo; echo ValueError: done; exit 1' {model}"
    settings = Engine(command=command, args=("--chat-template", str(template)))
    with pytest.raises(EngineRefusedError):
        start(tree, settings, tmp_path / "run", Sandbox()).__enter__()
    assert "words of a template" in (tmp_path / "run" / "engine.log").read_text()


def test_files_of_a_hub_cache_are_reachable_through_their_links(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "abc"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    (blobs / "b1").write_text("linked bytes")
    (snapshot / "config.json").symlink_to("../../blobs/b1")
    tree = scan_tree(snapshot, link_roots=(blobs,))
    command = "/bin/sh -c 'cat $0/config.json; echo; echo ValueError: done; exit 1' {model}"
    with pytest.raises(EngineRefusedError):
        start(tree, Engine(command=command), tmp_path / "run", Sandbox()).__enter__()
    assert "linked bytes" in (tmp_path / "run" / "engine.log").read_text()


@pytest.mark.slow
def test_ctrl_c_while_it_loads_leaves_nothing_behind(tree: Tree, tmp_path: Path) -> None:
    program = f"""
        from pathlib import Path
        from modelctl.isolation import Sandbox
        from modelctl.model.release import Serving
        from modelctl.model.tree import scan_tree
        from modelctl.progress import SILENT
        from modelctl.serving.engine import start_engine
        from modelctl.settings import Engine
        engine = Engine(command="/bin/sh -c 'echo $$ > $0/../pid; sleep 600 & wait' {{model}}")
        with start_engine(scan_tree(Path({str(tree.root)!r})), Serving(), engine, sandbox=Sandbox("none"),
                          folder=Path({str(tmp_path / "run")!r}), progress=SILENT):
            pass
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stderr=subprocess.DEVNULL)
    pid = tmp_path / "pid"
    deadline = time.monotonic() + 30
    while not (pid.exists() and pid.read_text().strip()) and time.monotonic() < deadline:
        time.sleep(0.05)
    group = int(pid.read_text())
    process.send_signal(signal.SIGINT)
    process.wait(30)
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)


def test_a_running_engine_is_asked_who_it_is(tmp_path: Path) -> None:
    async def ask(engine: FaultEngine):  # type: ignore[no-untyped-def]
        return await describe(dataclasses.replace(engine.endpoint, model="", max_model_len=None, version=None))

    with FaultEngine(tmp_path) as engine:
        found = asyncio.run(ask(engine))
    assert (found.model, found.max_model_len, found.version) == ("fault", 512, "0.0-fault")


def test_nobody_at_a_url_is_undecided_and_nonsense_is_an_input_error() -> None:
    with pytest.raises(CannotDecideError, match="no answer"):
        attach("http://127.0.0.1:9/v1")
    for url in ("localhost:8000", "ftp://x", "http://", "http://x/other/path"):
        with pytest.raises(InputError):
            attach(url)
