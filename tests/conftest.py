"""Options and fixtures of the whole suite."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from modelctl.services.process import Running, running
from modelctl.services.s3 import s3_server
from tests.support.s3_servers import ACCESS_KEY, SECRET_KEY, moto_server

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files anew; review them with git diff"
    )


def pytest_configure() -> None:
    """Ctrl-C works in the programs that tests start, also where the tests were started in the background.

    A shell without job control lets its background programs ignore SIGINT, and their children inherit that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with long tests come first, so that no worker is left with one of them when the others have ended.

    A test that asks for more time than others have is taken for as long as it asks for.
    """
    seconds = Counter[Path]()
    for item in items:
        own = item.get_closest_marker("timeout")
        seconds[item.path] += own.args[0] if own else 20 if item.get_closest_marker("slow") else 1
    items.sort(key=lambda item: -seconds[item.path])


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(path, text)`: the text is what `tests/golden/<path>` holds; `--update-golden` writes it instead."""

    def compare(path: str, text: str) -> None:
        file = GOLDEN / path
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert file.is_file(), f"no {file}: run pytest --update-golden and review it"
        assert text == file.read_text(encoding="utf-8"), f"{file} differs: if that is meant, run pytest --update-golden"

    return compare


@pytest.fixture(scope="session")
def rclone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """An S3 server that keeps its bytes on disk and ignores conditions."""
    folder = tmp_path_factory.mktemp("rclone")
    with running(s3_server(folder, access_key=ACCESS_KEY, secret_key=SECRET_KEY)) as service:
        yield service


@pytest.fixture(scope="session")
def moto() -> Iterator[str]:
    """The URL of an S3 server that honours conditions."""
    with moto_server() as url:
        yield url
