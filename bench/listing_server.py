"""The two pages of the Hub's API that a comparison with an official listing asks for, worked out beforehand.

What is measured is the reading of the folder, so the server answers at once: every hash is known when it starts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

COMMIT = "c" * 40
REPO = "bench/model"
LFS_SUFFIX = ".safetensors"


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of a Hub that lists the folder's files as `bench/model` at one commit."""
    entries = [
        _entry(path, path.relative_to(folder).as_posix()) for path in sorted(folder.rglob("*")) if path.is_file()
    ]
    siblings = [{"rfilename": entry["path"], "size": entry["size"], "blobId": entry["oid"]} for entry in entries]
    revision = {"id": REPO, "modelId": REPO, "sha": COMMIT, "siblings": siblings, "tags": []}
    answers = {"revision": json.dumps(revision).encode(), "tree": json.dumps(entries).encode()}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            pass

        def do_GET(self) -> None:
            parts = self.path.split("?")[0].split("/")
            answer = answers.get(parts[5], b"") if parts[:5] == ["", "api", "models", *REPO.split("/")] else b""
            self.send_response(200 if answer else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _entry(path: Path, name: str) -> dict[str, object]:
    content = path.read_bytes()
    entry: dict[str, object] = {"type": "file", "path": name, "size": len(content), "oid": _blob_sha1(content)}
    if name.endswith(LFS_SUFFIX):
        sha256 = hashlib.sha256(content).hexdigest()
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {len(content)}\n".encode()
        entry["oid"] = _blob_sha1(pointer)
        entry["lfs"] = {"oid": sha256, "size": len(content), "pointerSize": len(pointer)}
    return entry


def _blob_sha1(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
