"""`modelctl publish` beside `aws s3 cp --recursive` and `rclone copy`: the same shards to the same server.

The server is rclone's own, on this machine, and every run gets a bucket of its own. Ours is the whole command on an
admitted release: the shards are hashed while they are sent, then manifest, record, commit and tag are
written. The other two send. The AWS client lives in an environment of its own under `.cache/bench-aws`.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path

from comparison import Call, Row, beside, medians, quietly
from files import MIB, write_random

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
AWS = ROOT / ".cache" / "bench-aws"
PACKAGES = ("awscli==1.46.3",)
SHARDS = 4
SAME_RATE = 1 / 0.9
"""At least 0.9 of the faster one's rate, as a ratio of times."""
MEMORY_MIB = 150
"""Of the whole process, the interpreter included."""
RESENT_MIB = 1
"""What a new version with one small file changed may send."""
_MEASURED = """
import sys
from modelctl.cli.main import run
code = run(sys.argv[1:])
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
sys.exit(code)
"""


def ready() -> bool:
    """Whether the AWS client is installed."""
    return (AWS / "bin" / "aws").exists()


def install() -> None:
    """Install it, saying so before. Raises `SystemExit` when pip fails."""
    print(f"installing {', '.join(PACKAGES)} into {AWS.relative_to(ROOT)} (about 120 MB, once)", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", str(AWS)], check=True)
    pip = [str(AWS / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *PACKAGES]
    if subprocess.run(pip, check=False).returncode:
        raise SystemExit(
            "bench: the AWS client could not be installed; bench/measure.py --without publish pull leaves it out"
        )


def rows(folder: Path, *, rounds: int, size_mb: int) -> list[Row]:
    """Time of a whole command each, the peak memory of ours, and what a version with one file changed sends."""
    sys.path.insert(0, str(ROOT))
    from tests.support.publication import propose
    from tests.support.s3_proxy import s3_proxy
    from tests.support.s3_servers import ACCESS_KEY, SECRET_KEY

    from modelctl.registry.store import ObjectStore
    from modelctl.services.process import running
    from modelctl.services.s3 import s3_server

    proposal = propose(folder / "registry", files={"config.json": b"{}\n"})
    model = proposal.root / "model"
    for number in range(SHARDS):
        write_random(model / f"{number}.safetensors", size_mb // SHARDS)
    proposal.admit()
    with running(s3_server(folder / "s3", access_key=ACCESS_KEY, secret_key=SECRET_KEY)) as server:
        env = {
            **os.environ, "HOME": str(folder), "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_DEFAULT_REGION": "us-east-1", "MODELCTL_STORE_ENDPOINT": server.address,
            "RCLONE_S3_PROVIDER": "Other", "RCLONE_S3_ENDPOINT": server.address, "RCLONE_S3_REGION": "us-east-1",
            "RCLONE_S3_ACCESS_KEY_ID": ACCESS_KEY, "RCLONE_S3_SECRET_ACCESS_KEY": SECRET_KEY,
        }  # fmt: skip
        buckets = (f"bucket-{number}" for number in itertools.count())
        bucket = next(buckets)

        def fresh() -> None:
            nonlocal bucket
            shutil.rmtree(folder / "s3" / "data" / bucket, ignore_errors=True)
            bucket = next(buckets)
            ObjectStore(
                endpoint=server.address, bucket=bucket, access_key=ACCESS_KEY, secret_key=SECRET_KEY
            ).ensure_bucket()

        def unpublished() -> None:
            fresh()
            if proposal.git.run("tag", "--list"):
                proposal.git.run("tag", "--delete", f"tiny@v{proposal.version}")
                proposal.git.run("reset", "--quiet", "--hard", "HEAD~1")

        def command(version: str, report: Path) -> list[str]:
            return ["publish", f"tiny@{version}", "--report", str(report), "--quiet"]

        def settings() -> dict[str, str]:
            return {**env, "MODELCTL_STORE_BUCKET": bucket, "MODELCTL_POLICY": "demo"}

        def ours() -> None:
            arguments = command("1.0.0", proposal.report)
            quietly(BIN / "modelctl", *arguments, cwd=proposal.root, env=settings())()

        def aws() -> None:
            options = ("--endpoint-url", server.address, "s3", "cp", "--recursive", "--only-show-errors")
            quietly(AWS / "bin" / "aws", *options, model, f"s3://{bucket}/m/", cwd=folder, env=env)()

        def rclone() -> None:
            quietly(BIN / "rclone", "copy", model, f":s3:{bucket}/m", cwd=folder, env=env)()

        tools: dict[str, Call] = {"modelctl publish": ours, "aws s3 cp": aws, "rclone copy": rclone}
        before: dict[str, Call] = {
            "modelctl publish": unpublished, "aws s3 cp": fresh, "rclone copy": fresh,
        }  # fmt: skip
        times = medians(tools, rounds=rounds, before=before)
        unpublished()
        done = subprocess.run(
            [sys.executable, "-I", "-c", _MEASURED, *command("1.0.0", proposal.report)],
            cwd=proposal.root, env=settings(), capture_output=True, text=True, check=True,
        )  # fmt: skip
        (model / "config.json").write_text('{"changed": true}\n')
        changed = proposal.next_version("1.1.0")
        with s3_proxy(server.address) as proxy:
            quietly(
                BIN / "modelctl", *command("1.1.0", changed.report), cwd=proposal.root,
                env={**settings(), "MODELCTL_STORE_ENDPOINT": proxy.url},
            )()  # fmt: skip
    for name in ("s3", "registry"):
        shutil.rmtree(folder / name)
    parameters = {"rounds": rounds, "size_mib": size_mb, "shards": SHARDS}
    figure = f"publish of {size_mb * MIB / 1e9:.1f} GB in {SHARDS} shards"
    faster = min(("aws s3 cp", "rclone copy"), key=lambda name: times[name])
    return [
        *beside(figure, times, "modelctl publish", at_most={faster: SAME_RATE}, **parameters),
        Row(
            figure="peak memory, publish", ours=int(done.stdout.split()[-1]) / 1024, beside="the limit",
            other=MEMORY_MIB, unit="MiB", at_most=1.0, parameters=parameters,
        ),
        Row(
            figure="sent when one small file changed", ours=proxy.sent_bytes / MIB, beside="the limit",
            other=RESENT_MIB, unit="MiB", at_most=1.0, parameters=parameters,
        ),
    ]  # fmt: skip
