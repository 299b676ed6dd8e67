"""One file of a Hub commit over HTTP: from where a part ends, or from its beginning when the server can't do that.

A continuation is believed only when the server says 206 with the very range that was asked for, of a file of the listed
size. Everything else either begins anew or is an error; what arrives is held against the listing by `download`.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from modelctl.errors import CannotDecideError, RefusedError
from modelctl.model.hub import TIMEOUT_S, Hub
from modelctl.model.hub_errors import client_error, explain, require_success
from modelctl.model.listing import Upstream, UpstreamFile
from modelctl.model.partial import Part
from modelctl.progress import Task

_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")


class StoppedError(Exception):
    """Another worker failed, or the person pressed Ctrl-C."""


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """Downloads of one commit, from any number of threads."""

    hub: Hub
    upstream: Upstream
    task: Task
    stop: Event = field(default_factory=Event)
    sockets: set[socket.socket] = field(default_factory=set)
    """Connections that a worker waits on."""

    def interrupt(self) -> None:
        """End every transfer at once, also one that waits for a Hub that says nothing."""
        self.stop.set()
        for connection in list(self.sockets):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def require_going(self) -> None:
        """Raises `StoppedError` after `interrupt`."""
        if self.stop.is_set():
            raise StoppedError

    def receive(self, part: Part) -> None:
        """Ask once for what is missing and append it; a connection that breaks in between just ends that.

        At most one byte over the listed size is taken. Raises what `explain` raises, `RefusedError` for a file of
        another size, `OSError` when the disk does not take it.
        """
        if part.received and not self._ask(part, part.received):
            self.task.advance(-part.restart())
        if not part.received:
            self._ask(part, 0)

    def _ask(self, part: Part, offset: int) -> bool:
        """One request from `offset` on; False when the server does not continue there and a new one is needed."""
        file = part.file
        with self._open(file, offset) as answer:
            if offset and answer.status_code == 416:
                return False
            with explain(self.hub.endpoint, self.upstream.repo_id, self.upstream.commit):
                require_success(answer)
            self._require_commit(file, [step.headers for step in (*answer.history, answer)])
            encoded = answer.headers.get("Content-Encoding", "identity") != "identity"
            if answer.status_code == 206:
                if encoded or not self._continues(file, offset, answer.headers.get("Content-Range", "")):
                    return False
            elif answer.status_code != 200:
                raise CannotDecideError(
                    f"{self.hub.endpoint} answers for {file.path} with status {answer.status_code}",
                    remedy="check HF_ENDPOINT",
                )
            else:
                if not encoded:
                    self._require_size(file, answer.headers.get("Content-Length"))
                if offset:
                    self.task.advance(-part.restart())
            part.pieced |= part.received > 0
            self._append(part, answer)
            return True

    @contextmanager
    def _open(self, file: UpstreamFile, offset: int) -> Iterator[Any]:
        from huggingface_hub import get_session

        self.require_going()
        url = self.hub.file_url(self.upstream.repo_id, self.upstream.commit, file.path)
        headers = self.hub.headers() | {"Accept-Encoding": "identity"}
        if offset:
            headers["Range"] = f"bytes={offset}-"
        stream = get_session().stream("GET", url, headers=headers, timeout=TIMEOUT_S, follow_redirects=True)
        with explain(self.hub.endpoint, self.upstream.repo_id, self.upstream.commit):
            answer = stream.__enter__()
        try:
            yield answer
        finally:
            stream.__exit__(None, None, None)

    def _append(self, part: Part, answer: Any) -> None:
        network = answer.extensions.get("network_stream")
        connection = network.get_extra_info("socket") if network is not None else None
        if connection is not None:
            self.sockets.add(connection)
        try:
            for arrived in self._blocks(answer):
                self.require_going()
                block = arrived[: part.file.size_bytes + 1 - part.received]
                part.add(block)
                self.task.advance(len(block))
                if part.received > part.file.size_bytes:
                    return
        finally:
            self.sockets.discard(connection)

    def _blocks(self, answer: Any) -> Iterator[bytes]:
        """The bytes as they arrive, none held back: what came before a break is kept."""
        try:
            yield from answer.iter_bytes()
        except client_error():
            return

    def _continues(self, file: UpstreamFile, offset: int, content_range: str) -> bool:
        """Whether a 206 is the continuation that was asked for."""
        named = _CONTENT_RANGE.fullmatch(content_range.strip())
        if offset and named is not None and named[3] in ("*", str(file.size_bytes)):
            return int(named[1]) == offset <= int(named[2]) < file.size_bytes
        if not offset:
            raise CannotDecideError(
                f"{self.hub.endpoint} sends a range of {file.path}, asked for all of it", remedy="check HF_ENDPOINT"
            )
        return False

    def _require_size(self, file: UpstreamFile, length: str | None) -> None:
        if length is not None and length.strip() != str(file.size_bytes):
            raise RefusedError(
                f"{self.upstream.repo_id}@{self.upstream.commit[:12]}: {file.path}: the server sends {length[:20]!a} "
                f"bytes, the Hub lists {file.size_bytes}",
                remedy="the file was changed on the way: check HF_ENDPOINT and proxies, then run it again",
            )

    def _require_commit(self, file: UpstreamFile, headers: Iterable[Mapping[str, str]]) -> None:
        """Raises `CannotDecideError`, and no refusal: of the bytes of the right commit nothing is known."""
        for header in headers:
            commit = header.get("X-Repo-Commit", self.upstream.commit)
            if commit != self.upstream.commit:
                raise CannotDecideError(
                    f"{self.hub.endpoint} answers with {file.path} of commit {commit[:40]!a}, asked for that of "
                    f"{self.upstream.commit}: its bytes were not taken",
                    remedy="a commit never moves, so the server mixes them up: run it again, or check HF_ENDPOINT",
                )
