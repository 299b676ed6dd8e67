"""`modelctl pull` beside `aws s3 cp --recursive` and `rclone copy`: the same shards from the same server.

The server is rclone's own, on this machine, so that it and the disk are the same for all; the client is compared. All
three end with every byte on the disk: ours sees to that itself, after the other two the files are synchronised.
rclone gets objects that it has sent itself, so that it knows an md5 of each and checks it; the AWS client checks
nothing that this server keeps.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from comparison import Call, Row, beside, medians, quietly
from files import MIB, write_random
from publishing import AWS, SAME_RATE

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
SHARDS = 4
MEMORY_MIB = 100
"""Of the whole process, the interpreter included: what an init container is given."""
_MEASURED = """
import sys
from modelctl.cli.main import run
code = run(sys.argv[1:])
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
sys.exit(code)
"""


def rows(folder: Path, *, rounds: int, size_mb: int) -> list[Row]:
    """Time of a whole command each, into an empty place, and the peak memory of ours."""
    sys.path.insert(0, str(ROOT))
    from tests.support.bucket import place
    from tests.support.s3_servers import ACCESS_KEY, SECRET_KEY

    from modelctl.registry.durable import make_durable
    from modelctl.registry.store import ObjectStore
    from modelctl.services.process import running
    from modelctl.services.s3 import s3_server

    block = write_random(folder / "model" / "0.bin", size_mb // SHARDS).read_bytes()
    for number in range(1, SHARDS):
        os.link(folder / "model" / "0.bin", folder / "model" / f"{number}.bin")
    with running(s3_server(folder / "s3", access_key=ACCESS_KEY, secret_key=SECRET_KEY)) as server:
        store = ObjectStore(endpoint=server.address, bucket="models", access_key=ACCESS_KEY, secret_key=SECRET_KEY)
        digest = place(store, {f"{number}.bin": block for number in range(SHARDS)}).served.tree_digest
        del block
        ours, theirs = folder / "ours", folder / "theirs"
        env = {
            **os.environ,
            "MODELCTL_STORE_ENDPOINT": server.address,
            "MODELCTL_STORE_ACCESS_KEY": ACCESS_KEY,
            "MODELCTL_STORE_SECRET_KEY": SECRET_KEY,
            "RCLONE_S3_PROVIDER": "Other",
            "RCLONE_S3_ENDPOINT": server.address,
            "RCLONE_S3_ACCESS_KEY_ID": ACCESS_KEY,
            "RCLONE_S3_SECRET_ACCESS_KEY": SECRET_KEY,
            "HOME": str(folder),
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        quietly(BIN / "rclone", "copy", folder / "model", ":s3:models/rclone", cwd=folder, env=env)()
        arguments = ["pull", "tiny@1.0.0", str(ours), "--from", "s3://models", "--digest", digest, "--quiet"]
        copied = quietly(BIN / "rclone", "copy", ":s3:models/rclone", theirs, cwd=folder, env=env)
        options = ("--endpoint-url", server.address, "s3", "cp", "--recursive", "--only-show-errors")
        got = quietly(AWS / "bin" / "aws", *options, "s3://models/tiny/1.0.0/", theirs, cwd=folder, env=env)

        def durable(call: Call) -> Call:
            def run() -> None:
                call()
                make_durable(theirs, sorted(theirs.iterdir()))

            return run

        tools: dict[str, Call] = {
            "modelctl pull": quietly(BIN / "modelctl", *arguments, cwd=folder, env=env),
            "rclone copy": durable(copied),
            "aws s3 cp": durable(got),
        }
        emptied: dict[str, Call] = {name: lambda: _empty(ours, theirs) for name in tools}
        times = medians(tools, rounds=rounds, before=emptied)
        _empty(ours, theirs)
        done = subprocess.run(
            [sys.executable, "-I", "-c", _MEASURED, *arguments],
            cwd=folder, env=env, capture_output=True, text=True, check=True,
        )  # fmt: skip
    for name in ("s3", "ours", "model"):
        shutil.rmtree(folder / name)
    parameters = {"rounds": rounds, "size_mib": size_mb, "shards": SHARDS}
    figure = f"pull of {size_mb * MIB / 1e9:.1f} GB in {SHARDS} shards"
    faster = min(("aws s3 cp", "rclone copy"), key=lambda name: times[name])
    return [
        *beside(figure, times, "modelctl pull", at_most={faster: SAME_RATE}, **parameters),
        Row(
            figure="peak memory, pull", ours=int(done.stdout.split()[-1]) / 1024, beside="the limit",
            other=MEMORY_MIB, unit="MiB", at_most=1.0, parameters=parameters,
        ),
    ]  # fmt: skip


def _empty(*folders: Path) -> None:
    """Nothing of the run before is there, and the disk has nothing left to do for it."""
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    os.sync()
