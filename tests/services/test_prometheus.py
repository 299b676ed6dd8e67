"""A real Prometheus scrapes a real metrics page on loopback."""

from __future__ import annotations

import json
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from modelctl.errors import CannotDecideError
from modelctl.services.process import find, running
from modelctl.services.prometheus import prometheus


@contextmanager
def metrics_page(waiting: int) -> Iterator[str]:
    """A server whose /metrics shows one gauge of vLLM; yields its `host:port`."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = (
                f'# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{{model="m"}} {waiting}\n'.encode()
            )
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def query(address: str, expression: str) -> list[str]:
    """The values of an instant query."""
    parameters = urllib.parse.urlencode({"query": expression})
    with urllib.request.urlopen(f"{address}/api/v1/query?{parameters}", timeout=5) as answer:
        return [row["value"][1] for row in json.load(answer)["data"]["result"]]


def wait_for(address: str, expression: str, wanted: list[str]) -> None:
    """Ask until the answer is the wanted one; fails after half a minute with the last answer."""
    deadline = time.monotonic() + 30
    while (seen := query(address, expression)) != wanted:
        assert time.monotonic() < deadline, f"{expression} gives {seen}, wanted {wanted}"
        time.sleep(0.2)


@pytest.mark.services
def test_it_scrapes_its_targets_and_takes_new_ones_without_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "prometheus"
    with metrics_page(waiting=3) as first, metrics_page(waiting=7) as second:
        with running(prometheus(folder, targets=[first])) as service:
            wait_for(service.address, "vllm:num_requests_waiting", ["3"])
            prometheus(folder, targets=[second])
            wait_for(service.address, f'vllm:num_requests_waiting{{instance="{second}"}}', ["7"])
            again = find(folder)
            assert again is not None
            assert again.pid == service.pid
        assert find(folder) is None


def test_a_missing_program_is_an_error_with_the_command_that_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotDecideError) as caught:
        prometheus(tmp_path / "state", targets=[])
    assert caught.value.remedy == "apt-get install prometheus"
    assert not (tmp_path / "state").exists()
