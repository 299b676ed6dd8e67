"""A private Prometheus on loopback, so that a laptop sees what a cluster's Prometheus would see of an engine.

It scrapes the given targets often enough for `rate()` to answer within seconds, keeps a day, and writes only into its
own folder. The targets live in a file that Prometheus watches: naming others changes a running one without a restart.
"""

from __future__ import annotations

import http.client
import json
import shutil
from pathlib import Path

from modelctl.errors import CannotDecideError
from modelctl.files import write_whole
from modelctl.services.process import Service, free_port

PROGRAM = "prometheus"
SCRAPE_INTERVAL_S = 2
RETENTION = "1d"
TARGETS_FILE = "targets.json"


def prometheus(folder: Path, *, targets: list[str]) -> Service:
    """A Prometheus that keeps its state in `folder` and scrapes `/metrics` of each target (`host:port`).

    The configuration is written at once. Raises `CannotDecideError` when the program is not installed.
    """
    program = shutil.which(PROGRAM)
    if program is None:
        raise CannotDecideError(f"{PROGRAM} is not installed", remedy="apt-get install prometheus")
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    configuration = {
        "global": {"scrape_interval": f"{SCRAPE_INTERVAL_S}s", "scrape_timeout": f"{SCRAPE_INTERVAL_S}s"},
        "scrape_configs": [
            {
                "job_name": "engine",
                "file_sd_configs": [{"files": [str(folder / TARGETS_FILE)], "refresh_interval": "2s"}],
            }
        ],
    }
    # Prometheus reads YAML, and JSON is YAML.
    write_whole(folder / "prometheus.yml", json.dumps(configuration, indent=2) + "\n")
    write_whole(folder / TARGETS_FILE, json.dumps([{"targets": targets}]) + "\n")
    return Service(
        name=PROGRAM,
        argv=(
            program,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--storage.tsdb.retention.time={RETENTION}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=warn",
        ),
        folder=folder,
        address=f"http://127.0.0.1:{port}",
        detail=f"scrapes {', '.join(targets) or 'nothing yet'} every {SCRAPE_INTERVAL_S} s",
        ready=lambda: _is_ready(port),
    )


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/-/ready")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
