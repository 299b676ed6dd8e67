"""A real private clamd for tests, and a false one whose answers and faults are set by the test."""

from __future__ import annotations

import socket
import struct
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from modelctl.scan.clamd import Clamd
from modelctl.services.clamd import private_clamd
from modelctl.services.eicar import eicar
from modelctl.services.process import Service, running

_PLACES = ("Foreground", "LocalSocket", "LocalSocketMode", "DatabaseDirectory", "TemporaryDirectory", "User", "LogFile")


@contextmanager
def real_clamd(
    *, replace: dict[str, str] | None = None, options: dict[str, str] | None = None
) -> Iterator[tuple[Clamd, Service]]:
    """A clamd with the small database; `replace` changes lines of its configuration by their option's name, `options`
    are all that it is told beside where it lives."""
    with tempfile.TemporaryDirectory(prefix="clamd-") as folder:
        service = private_clamd(Path(folder), database=small_database(Path(folder) / "signatures"))
        configuration = Path(folder) / "clamd.conf"
        lines = dict(line.split(" ", 1) for line in configuration.read_text().splitlines())
        if options is not None:
            lines = {name: value for name, value in lines.items() if name in _PLACES}
            lines = {name: value for name, value in options.items() if name not in _PLACES} | lines
        lines |= replace or {}
        configuration.write_text("".join(f"{name} {value}\n" for name, value in lines.items()))
        with running(service) as state:
            yield Clamd(state.address), service


def small_database(folder: Path) -> Path:
    """Signatures of the EICAR test file, as a file of its own and anywhere in a body."""
    folder.mkdir(parents=True)
    (folder / "test.ndb").write_text(f"Eicar-Anywhere:0:*:{eicar().hex()}\n")
    return folder


class FalseClamd:
    """Listens on a loopback port. `answers` maps a command to raw bytes; None hangs up without a word.

    `hang_up_after` bytes of a stream the connection is closed, with `reset` abruptly; `stall_after` bytes nothing more
    is read. `silent` gives no answer, `pieces` gives it byte by byte.
    """

    def __init__(self) -> None:
        self.answers: dict[bytes, bytes | None] = {
            b"VERSION": b"ClamAV 1.4.6/27500/Mon Nov 30 08:00:00 2026\0",
            b"INSTREAM": b"stream: OK\0",
        }
        self.hang_up_after: int | None = None
        self.reset = False
        self.stall_after: int | None = None
        self.silent = False
        self.pieces = False
        self.received = bytearray()
        self._closed = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(timeout=5)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client:
                try:
                    self._answer(client)
                except OSError:
                    continue

    def _answer(self, client: socket.socket) -> None:
        stream = client.makefile("rb")
        command = bytearray()
        while (byte := stream.read(1)) not in (b"\0", b""):
            command += byte
        if not command:
            return
        if command == b"zINSTREAM":
            self.received.clear()
            while length := int.from_bytes(stream.read(4), "big"):
                self.received += stream.read(length)
                if self.stall_after is not None and len(self.received) >= self.stall_after:
                    self._closed.wait(60)
                    return
                if self.hang_up_after is not None and len(self.received) >= self.hang_up_after:
                    if self.reset:
                        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        stream.close()
                        return
                    break
            if self.silent:
                self._closed.wait(60)
                return
        answer = self.answers[bytes(command[1:])]
        for part in [bytes([byte]) for byte in answer or b""] if self.pieces else [answer or b""]:
            client.sendall(part)
