"""The place in which documented commands run: a registry repository with a remote, a small model, and real services.

git, an S3 server, clamd and a Hub are real or speak the real protocols; the engine is the tests' own, behind a port.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from modelctl.git import Git
from tests.support.clamd import real_clamd
from tests.support.engine import FaultEngine
from tests.support.hub import LocalHub
from tests.support.keys import ssh_key
from tests.support.models import tiny_llama
from tests.support.repos import git_repository

PROJECT = Path(__file__).resolve().parents[2]
SETTINGS = "policy: ours\nenvironments: [prod]\nsigning: {key: .modelctl/key}\n"
POLICY = """\
apiVersion: modelctl.dev/v1
kind: AdmissionPolicy
metadata: {name: ours}
spec:
  extends: demo
  checks:
    long-context: {fractions: [0.5], answer_tokens: 8, min_length: 64}
    concurrency:
      {streams: 2, ramp_s: 0.2, duration_s: 1, prompt_tokens: 32, answer_tokens: 8, code_requests: 1, scrape_s: 0.2}
"""
RELEASE = """\
apiVersion: modelctl.dev/v1
kind: ModelRelease
metadata: {{name: {name}, version: {version}}}
spec:
  source: {{folder: {folder}}}
  license: apache-2.0
  serving:
    image: registry.example.org/vllm@sha256:{zeros}
    max_model_len: 1024
    max_num_seqs: 8
    gpu: {{count: 0}}
"""
IGNORED = """\
*
!.gitignore
!/modelctl.yaml
!/policies/
!/policies/**
!/registry/
!/registry/**
!/gitops/
!/gitops/**
!/.dvc/
!/.dvc/config
"""
"""Only what belongs to a registry repository is in git; models and what commands write lie around it."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A registry repository and what its commands find around it."""

    root: Path
    environment: dict[str, str]
    commit: str
    """Of the repository org/model on the Hub."""
    port: int
    """Where the engine listens."""

    @property
    def git(self) -> Git:
        return Git(self.root)


@contextmanager
def scene(folder: Path, s3: dict[str, str]) -> Iterator[Scene]:
    """Set the scene; `s3` are the variables that name a store and its keys."""
    root = folder / "registry-repository"
    git = git_repository(root)
    for name in ("model", "folder", "original"):
        tiny_llama(root / name, max_positions=1024)
    tiny_llama(root / "model-next", max_positions=1024, seed=1)
    for path, text in {
        "modelctl.yaml": SETTINGS,
        "policies/ours.yaml": POLICY,
        ".gitignore": IGNORED,
        "registry/tiny/1.0.0/release.yaml": release("tiny", "1.0.0", "model"),
        "registry/tiny/1.2.0/release.yaml": release("tiny", "1.2.0", "model-next"),
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    environment = root / "gitops" / "environments" / "prod"
    environment.mkdir(parents=True)
    shutil.copyfile(PROJECT / "gitops" / "environments" / "demo" / "environment.yaml", environment / "environment.yaml")
    (root / ".modelctl").mkdir()
    key = ssh_key(root / ".modelctl" / "key", kind="ecdsa")
    public = key.with_name("key.pub").read_text(encoding="utf-8")
    (root / "policies" / "allowed_signers").write_text(f"test@example.org {public}", encoding="utf-8")
    git.run("add", "--all")
    git.run("commit", "--quiet", "--message", "Lay down the registry")
    git.run("init", "--quiet", "--bare", str(folder / "origin.git"))
    git.run("remote", "add", "origin", str(folder / "origin.git"))
    git.run("push", "--quiet", "--set-upstream", "origin", "main")
    with ExitStack() as stack:
        clamd, _ = stack.enter_context(real_clamd())
        hub = stack.enter_context(LocalHub())
        commit = hub.push("org/model", {path.name: path.read_bytes() for path in sorted((root / "model").iterdir())})
        sockets = folder / "e"
        sockets.mkdir()
        engine = stack.enter_context(FaultEngine(sockets, max_model_len=1024))
        port = stack.enter_context(_behind_a_port(engine.socket))
        environment = {
            **s3,
            "MODELCTL_CLAMD": clamd.address,
            "MODELCTL_ENGINE_ENDPOINT": f"http://127.0.0.1:{port}",
            "HF_ENDPOINT": hub.url,
        }
        yield Scene(root=root, environment=environment, commit=commit, port=port)


def release(name: str, version: str, folder: str) -> str:
    """A release file."""
    return RELEASE.format(name=name, version=version, folder=folder, zeros="0" * 64)


@contextmanager
def _behind_a_port(socket: Path) -> Iterator[int]:
    """A loopback port whose connections go on to a unix socket."""
    loop = asyncio.new_event_loop()

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while piece := await reader.read(65536):
                writer.write(piece)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_unix_connection(str(socket))
        await asyncio.gather(pipe(reader, inner_writer), pipe(inner_reader, writer))

    server = loop.run_until_complete(asyncio.start_server(connect, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
