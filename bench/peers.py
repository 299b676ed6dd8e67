"""Whole programs on the same model folder, from start to end: what a person waits for.

`hf cache verify` hashes a folder and compares it with the Hub's listing; `model_signing sign` hashes it and signs the
list; `dvc add` hashes it (md5) and links it into its cache. Each is set beside modelctl's own way to the same answer,
with Python's start and all imports counted on both sides. model-signing and DVC live in an environment of their own
under `.cache/bench-peers`, since neither is a part of modelctl.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from comparison import Call, Row, beside, medians, quietly
from files import write_random, write_small
from listing_server import COMMIT, REPO, serving

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".cache" / "bench-peers"
PACKAGES = ("model-signing==1.1.1", "pyopenssl", "dvc==3.67.1")
SHARDS = 4
SMALL = 200
_DIGEST = """
import sys
from pathlib import Path
from modelctl.model.tree import scan_tree
print(scan_tree(Path(sys.argv[1])).digest)
"""
_COMPARE = """
import sys
from pathlib import Path
from modelctl.model.files import compare_upstream
from modelctl.model.hub import Hub
from modelctl.model.tree import scan_tree
folder, repo, commit = sys.argv[1:]
sys.exit(any(compare_upstream(scan_tree(Path(folder)), Hub().listing(repo, commit))))
"""


def ready() -> bool:
    """Whether the peers are installed."""
    return all((HOME / "bin" / name).exists() for name in ("model_signing", "dvc"))


def install() -> None:
    """Install the peers, saying so before. Raises `SystemExit` when pip fails."""
    print(f"installing {', '.join(PACKAGES)} into {HOME.relative_to(ROOT)} (about 300 MB, once)", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", str(HOME)], check=True)
    pip = [str(HOME / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *PACKAGES]
    if subprocess.run(pip, check=False).returncode:
        raise SystemExit("bench: the peers could not be installed; bench/measure.py --without peers leaves them out")


def rows(folder: Path, *, rounds: int, size_mb: int) -> list[Row]:
    """Three peers on one folder: a few shards and some hundred small files."""
    model = folder / "model"
    for number in range(SHARDS):
        write_random(model / f"model-{number + 1:05}-of-{SHARDS:05}.safetensors", size_mb // SHARDS)
    write_small(model / "small", SMALL)
    environment = os.environ | {"HOME": str(folder), "HF_HOME": str(folder / "hf"), "DVC_NO_ANALYTICS": "1"}
    parameters = {"rounds": rounds, "size_mib": size_mb, "shards": SHARDS, "small_files": SMALL}
    with serving(model) as address:
        verified = _verify(model, environment | {"HF_ENDPOINT": address}, rounds)
    own = quietly(sys.executable, "-I", "-c", _DIGEST, model)
    signed, added = _sign(model, folder, environment), _add(model, folder, environment)
    tools: dict[str, Call] = {"modelctl": own, "model_signing sign": signed, "dvc add": added[1]}
    times = medians(tools, rounds=rounds, before={"dvc add": added[0]})
    return [
        *beside("a folder against the Hub's listing", verified, "modelctl", at_most={}, **parameters),
        *beside("a folder's digest", times, "modelctl", at_most={}, **parameters),
    ]


def _verify(model: Path, environment: Mapping[str, str], rounds: int) -> dict[str, float]:
    hf = Path(sys.executable).parent / "hf"
    command = (hf, "cache", "verify", REPO, "--revision", COMMIT, "--local-dir", model)
    tools = {
        "modelctl": quietly(sys.executable, "-I", "-c", _COMPARE, model, REPO, COMMIT, env=environment),
        "hf cache verify": quietly(
            *command, "--fail-on-missing-files", "--fail-on-extra-files", env=environment
        ),
    }  # fmt: skip
    return medians(tools, rounds=rounds)


def _sign(model: Path, folder: Path, environment: Mapping[str, str]) -> Call:
    key = folder / "key.pem"
    subprocess.run(
        ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(key)],
        check=True, capture_output=True,
    )  # fmt: skip
    program = HOME / "bin" / "model_signing"
    return quietly(
        program, "sign", "key", "--private_key", key, "--signature", folder / "model.sig", model, env=environment
    )


def _add(model: Path, folder: Path, environment: Mapping[str, str]) -> tuple[Call, Call]:
    """How a new DVC project with the folder in it is made, and how the folder is added to it."""
    project, program = folder / "dvc", HOME / "bin" / "dvc"
    run = partial(quietly, cwd=project, env=environment)

    def prepare() -> None:
        shutil.rmtree(project, ignore_errors=True)
        project.mkdir()
        run(program, "init", "--no-scm", "--quiet")()
        run(program, "config", "cache.type", "hardlink")()  # it would copy every byte else
        run(program, "config", "core.site_cache_dir", project / "site")()  # it would know the files from before else
        shutil.copytree(model, project / "model")

    return prepare, run(program, "add", "--quiet", "model")
