"""A local Hugging Face Hub: revision, tree and resolve with ranges, with faults that a test switches on.

Start it with `LocalHub()` as a context manager, add repositories, point `HF_ENDPOINT` at `url`. Only what is listed as
LFS is served through a redirect, as the Hub does it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import ssl
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Lock, Thread
from types import TracebackType
from urllib.parse import parse_qs, unquote, urlsplit

LFS_SUFFIXES = (".safetensors", ".gguf", ".bin", ".model")


@dataclass
class Faults:
    """What the server does wrong. Paths are those in the repository."""

    repo_error: tuple[int, str] | None = None
    """Status and `X-Error-Code` of every answer: (401, "GatedRepo"), (404, "RepoNotFound"), (429, "")."""
    flipped: set[str] = field(default_factory=set)
    """Files sent with their last byte changed."""
    cut: dict[str, int] = field(default_factory=dict)
    """Files whose transfer breaks half way of what was asked for, and how many times it does."""
    first_answers: dict[str, list[tuple[int, dict[str, str]]]] = field(default_factory=dict)
    """Statuses and headers that are answered first, each once: for `revision`, `tree`, a file's path, or `lfs`."""
    missing_headers: set[str] = field(default_factory=set)
    """Headers left out of a file's answer (`X-Repo-Commit`; without `Content-Length` the connection ends it)."""
    range_ignored: bool = False
    """A request for a range is answered with all of it."""
    range_status: int | None = None
    """A request for a range is refused with this status (416)."""
    content_range: str | None = None
    """What a 206 says instead of the range that it is."""
    compressed: set[str] = field(default_factory=set)
    """Files sent with gzip though `identity` was asked for."""
    renamed: dict[str, str] = field(default_factory=dict)
    """Repositories that are answered for by another (a redirect, as for a renamed one)."""
    next_page: str | None = None
    """Where every page of a listing says that it goes on."""
    lfs_host: str | None = None
    """Host name (another for the same address) that LFS files are redirected to."""
    slow: dict[str, float] = field(default_factory=dict)
    """Files sent at so many bytes a second, in pieces of a hundredth of a second."""
    stalled: set[str] = field(default_factory=set)
    """Files whose transfer stops half way and says nothing more until the server is closed."""
    longer: set[str] = field(default_factory=set)
    """Files sent with one byte more than listed."""
    listed_paths: dict[str, str] = field(default_factory=dict)
    """Paths that the listing changes (`config.json` → `../config.json`)."""
    listed_as: dict[str, dict[str, object]] = field(default_factory=dict)
    """Keys of a file's listing that are replaced (`{"config.json": {"oid": None}}`)."""
    answer_instead: dict[str, object] = field(default_factory=dict)
    """What `revision` or `tree` answers instead, as a JSON value."""
    wrong_commit: bool = False
    """`X-Repo-Commit` names another commit."""
    after_revision: Callable[[], object] | None = None
    """Run once after the commit was told (to move `main`)."""
    after_listing: Callable[[], object] | None = None
    """Run once after the first page of the listing was sent."""


@dataclass
class Repository:
    """Branches and the files of each commit."""

    branches: dict[str, str] = field(default_factory=dict)
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)


class LocalHub:
    """The server. `requests` keeps every request line in the order of arrival.

    `certificate`: a PEM file with key and certificate; the server then speaks TLS.
    """

    def __init__(self, *, certificate: Path | None = None) -> None:
        self.faults = Faults()
        self.repositories: dict[str, Repository] = {}
        self.requests: list[str] = []
        self.tokens: list[str | None] = []
        self.asked_ranges: list[str] = []
        """The `Range` of every request for a file that had one."""
        self.sent_bytes = 0
        """Bytes of files sent so far."""
        self.lock = Lock()
        self.closing = Event()
        self.page_size = 2
        """Entries on one page of a listing: small, so that every test turns pages."""
        hub = self

        class Handler(_Handler):
            served = hub

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self._scheme = "https"
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        """The endpoint, without a final slash."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> LocalHub:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def push(self, repo_id: str, files: Mapping[str, bytes], *, branch: str = "main") -> str:
        """Add a commit and move `branch` to it; returns the commit."""
        repository = self.repositories.setdefault(repo_id, Repository())
        text = repr((repo_id, len(repository.commits), sorted(files.items())))
        commit = hashlib.sha1(text.encode()).hexdigest()
        repository.commits[commit] = dict(files)
        repository.branches[branch] = commit
        return commit


def describe(path: str, content: bytes) -> dict[str, object]:
    """The tree entry of a file: LFS files carry their sha256, and `oid` is then the hash of the pointer."""
    entry: dict[str, object] = {"type": "file", "path": path, "size": len(content), "oid": blob_sha1(content)}
    if path.endswith(LFS_SUFFIXES):
        pointer = lfs_pointer(content)
        entry["oid"] = blob_sha1(pointer)
        sha256 = sha256_of(content)
        entry["lfs"] = {"oid": sha256, "size": len(content), "pointerSize": len(pointer)}
    return entry


def lfs_pointer(content: bytes) -> bytes:
    """The three lines that git keeps in place of an LFS file."""
    sha256 = sha256_of(content)
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {len(content)}\n".encode()


@lru_cache(maxsize=64)
def sha256_of(content: bytes) -> str:
    """sha256 in hex, taken once for each content."""
    return hashlib.sha256(content).hexdigest()


@lru_cache(maxsize=64)
def blob_sha1(content: bytes) -> str:
    """git's name of a blob."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Stay quiet about clients that were killed or hung up."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    served: LocalHub
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    """Head and body are two writes: without this each answer waits for a delayed acknowledgement."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        """Stay quiet."""

    def do_GET(self) -> None:
        """Answer one request."""
        self.served.requests.append(f"{self.command} {self.path}")
        self.served.tokens.append(self.headers.get("Authorization"))
        url = urlsplit(self.path)
        parts = [unquote(part) for part in url.path.strip("/").split("/")]
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        if parts[:2] == ["api", "models"] and len(parts) >= 6 and parts[4] in ("revision", "tree"):
            if not self._answered_first(parts[4]):
                self._about(f"{parts[2]}/{parts[3]}", parts[4], "/".join(parts[5:]), query)
        elif len(parts) >= 5 and parts[2] in ("resolve", "lfs"):
            path = "/".join(parts[4:])
            if not self._answered_first("lfs" if parts[2] == "lfs" else path):
                self._file(f"{parts[0]}/{parts[1]}", parts[3], path, redirected=parts[2] == "lfs")
        else:
            self._error(404, "RepoNotFound")

    do_HEAD = do_GET  # noqa: N815 - the name that http.server calls

    def _answered_first(self, what: str) -> bool:
        waiting = self.served.faults.first_answers.get(what)
        if not waiting:
            return False
        status, headers = waiting.pop(0)
        self._send(status, b"{}", headers)
        return True

    def _about(self, repo_id: str, what: str, revision: str, query: Mapping[str, str]) -> None:
        new_name = self.served.faults.renamed.get(repo_id)
        if new_name is not None:
            self._send(307, b"", {"Location": f"/api/models/{new_name}/{what}/{revision}"})
            return
        found = self._find(repo_id, revision)
        if found is None:
            return
        commit, files = found
        entries = [describe(path, content) for path, content in sorted(files.items())]
        for entry in entries:
            entry["path"] = self.served.faults.listed_paths.get(str(entry["path"]), entry["path"])
            entry.update(self.served.faults.listed_as.get(str(entry["path"]), {}))
        if what in self.served.faults.answer_instead:
            self._json(self.served.faults.answer_instead[what])
            return
        if what == "revision":
            siblings = [_sibling(entry) for entry in entries]
            self._json({"id": repo_id, "modelId": repo_id, "sha": commit, "siblings": siblings, "tags": []})
            after, self.served.faults.after_revision = self.served.faults.after_revision, None
            if after is not None:
                after()
            return
        start = int(query.get("cursor", "0"))
        end = start + self.served.page_size
        link = {}
        if end < len(entries):
            link = {"Link": f'<{self.served.url}/api/models/{repo_id}/tree/{commit}?cursor={end}>; rel="next"'}
        if self.served.faults.next_page is not None:
            link = {"Link": f'<{self.served.faults.next_page}>; rel="next"'}
        self._json(entries[start:end], headers=link)
        after, self.served.faults.after_listing = self.served.faults.after_listing, None
        if after is not None:
            after()

    def _file(self, repo_id: str, revision: str, path: str, *, redirected: bool) -> None:
        found = self._find(repo_id, revision)
        if found is None:
            return
        commit, files = found
        if path not in files:
            self._error(404, "EntryNotFound")
            return
        content, faults = files[path], self.served.faults
        lfs = path.endswith(LFS_SUFFIXES)
        headers = {"ETag": f'"{sha256_of(content) if lfs else blob_sha1(content)}"'}
        if not redirected and "X-Repo-Commit" not in faults.missing_headers:
            headers["X-Repo-Commit"] = "0" * 40 if faults.wrong_commit else commit
        if lfs and not redirected:
            headers |= {"X-Linked-Etag": f'"{sha256_of(content)}"', "X-Linked-Size": str(len(content))}
            host = self.served.url.replace("127.0.0.1", faults.lfs_host) if faults.lfs_host else ""
            self._send(302, b"", headers | {"Location": f"{host}/{repo_id}/lfs/{commit}/{path}"})
            return
        if path in faults.flipped:
            content = content[:-1] + bytes([content[-1] ^ 1])
        if path in faults.longer:
            content += b"x"
        if path in faults.compressed:
            content = gzip.compress(content)
            headers["Content-Encoding"] = "gzip"
        self._content(path, memoryview(content), headers)

    def _content(self, path: str, content: memoryview, headers: dict[str, str]) -> None:
        """The bytes that were asked for, whole or not."""
        faults, status, total = self.served.faults, 200, len(content)
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if asked is not None:
            self.served.asked_ranges.append(asked[0])
            start = int(asked[1])
            if faults.range_status is not None or start >= total:
                self._send(faults.range_status or 416, b"", {"Content-Range": f"bytes */{total}"})
                return
            if not faults.range_ignored:
                status, content = 206, content[start:]
                headers["Content-Range"] = faults.content_range or f"bytes {start}-{total - 1}/{total}"
        cut = faults.cut.get(path, 0) > 0
        if cut:
            faults.cut[path] -= 1
        sent = content[: len(content) // 2] if cut or path in faults.stalled else content
        length = None if "Content-Length" in faults.missing_headers else len(content)
        self._start(status, headers, length)
        if self.command == "HEAD":
            return
        self._stream(sent, faults.slow.get(path))
        if path in faults.stalled:
            self.served.closing.wait()
        if cut or length is None:
            self.close_connection = True

    def _stream(self, content: memoryview, rate: float | None) -> None:
        step = 1 << 20 if rate is None else max(1, int(rate / 100))
        for start in range(0, len(content), step):
            piece = content[start : start + step]
            try:
                self.wfile.write(piece)
            except OSError:
                self.close_connection = True
                return
            with self.served.lock:
                self.served.sent_bytes += len(piece)
            if rate is not None:
                time.sleep(0.01)

    def _find(self, repo_id: str, revision: str) -> tuple[str, dict[str, bytes]] | None:
        if self.served.faults.repo_error is not None:
            self._error(*self.served.faults.repo_error)
            return None
        repository = self.served.repositories.get(repo_id)
        if repository is None:
            self._error(404, "RepoNotFound")
            return None
        commit = repository.branches.get(revision, revision)
        if commit not in repository.commits:
            self._error(404, "RevisionNotFound")
            return None
        return commit, repository.commits[commit]

    def _json(self, value: object, *, headers: Mapping[str, str] | None = None) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})})

    def _error(self, status: int, code: str) -> None:
        headers = {"X-Error-Code": code} if code else {}
        self._send(status, b"{}", headers | ({"Retry-After": "7"} if status == 429 else {}))

    def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self._start(status, headers, len(body))
        if self.command != "HEAD":
            self.wfile.write(body)

    def _start(self, status: int, headers: Mapping[str, str], length: int | None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()


def _sibling(entry: Mapping[str, object]) -> dict[str, object]:
    sibling: dict[str, object] = {"rfilename": entry["path"], "size": entry["size"], "blobId": entry["oid"]}
    lfs = entry.get("lfs")
    if isinstance(lfs, dict):
        sibling["lfs"] = {"sha256": lfs["oid"], "size": lfs["size"], "pointerSize": lfs["pointerSize"]}
    return sibling
