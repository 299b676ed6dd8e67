"""Render 500 releases into five kinds of environment, and write them where the command line names a folder.

A program of its own, so that its time and its memory are those of this work alone.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RELEASES = 500
HOSTS = {"hostnames": ["llm.example.com"]}
ENVIRONMENTS: Mapping[str, Mapping[str, Any]] = {
    "replicas": {},
    "gateway": {
        "router": {"kind": "gateway-api", "gateway": {"name": "public", "namespace": "gateways"}, **HOSTS},
        "network": {"clients": ["apps"], "monitoring": "monitoring"},
        "gpu": {"spare": 9},
    },
    "istio": {"router": {"kind": "istio", **HOSTS}, "gpu": {"spare": 9}},
    "nginx": {
        "router": {"kind": "nginx", **HOSTS},
        "gpu": {"spare": 9},
        "autoscaling": {"max_replicas": 20, "streams_per_replica": 24},
    },
    "cpu": {"gpu": {"count": 0, "spare": 1}, "replicas": 4},
}


def main(target: Path | None) -> None:
    """Render, and write below `target`."""
    sys.path.insert(0, str(ROOT))
    from tests.support.rollouts import a_release, a_serving, an_environment

    from modelctl.rollout.render import render

    for kind, changes in ENVIRONMENTS.items():
        environment = an_environment(**changes)
        for number in range(RELEASES):
            name = f"model-{number}"
            files = render(a_release(name), a_serving(), environment).files
            if target is not None:
                folder = target / kind / name
                folder.mkdir(parents=True)
                for file, text in files.items():
                    (folder / file).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
