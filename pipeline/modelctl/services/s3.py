"""An S3 server on a folder of this disk, for a laptop and the demonstration: `rclone serve s3`, on loopback only.

Its credentials are made once per folder, kept there with mode 0600 and handed to the server by its environment, so that
no list of processes shows them. The server keeps objects' bytes on disk, but forgets their metadata when it ends, and
does not enforce `If-None-Match`; a real MinIO does both.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

from modelctl.errors import CannotDecideError, InputError
from modelctl.files import write_whole
from modelctl.services.process import Running, Service, find, free_port

REMEDY = "pip install 'modelctl[services]' (it brings rclone), or point store.endpoint at a MinIO"


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """An access key; the secret half is left out of every representation."""

    access_key: str
    secret_key: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Embedded:
    """The embedded server of a state folder, as it runs now."""

    running: Running
    credentials: Credentials


def s3_folder(state: Path) -> Path:
    """Where the embedded server of a state folder keeps everything."""
    return state / "services" / "s3"


def s3_program() -> Path | None:
    """rclone beside this Python, or on PATH; None when there is none."""
    beside = Path(sys.executable).parent / "rclone"
    if beside.is_file() and os.access(beside, os.X_OK):
        return beside
    found = shutil.which("rclone")
    return Path(found) if found else None


def s3_server(
    folder: Path, *, port: int | None = None, access_key: str | None = None, secret_key: str | None = None
) -> Service:
    """A server on `folder/data`, each bucket a folder in it; its address is a URL.

    Credentials that are not given are those of an earlier start in `folder`, else new ones. Raises `CannotDecideError`
    without rclone, `InputError` for keys that rclone would not take.
    """
    program = s3_program()
    if program is None:
        raise CannotDecideError("rclone is not installed: no embedded S3 server", remedy=REMEDY)
    folder = folder.resolve()
    credentials = keep_credentials(folder, access_key=access_key, secret_key=secret_key)
    data = folder / "data"
    data.mkdir(mode=0o700, exist_ok=True)
    chosen = port or free_port()
    address = f"http://127.0.0.1:{chosen}"
    return Service(
        name="s3",
        argv=(str(program), "serve", "s3", "--config", "", "--addr", f"127.0.0.1:{chosen}", str(data)),
        folder=folder,
        address=address,
        detail=f"rclone serve s3 on {data}; forgets metadata at its end, does not enforce If-None-Match",
        ready=lambda: _answers(chosen, credentials),
        ready_timeout_s=30.0,
        env={"RCLONE_AUTH_KEY": f'"{credentials.access_key},{credentials.secret_key}"'},
    )


def embedded_s3(state: Path) -> Embedded | None:
    """The embedded server of a state folder, if it runs."""
    folder = s3_folder(state)
    running = find(folder)
    credentials = read_credentials(folder)
    return Embedded(running=running, credentials=credentials) if running and credentials else None


def read_credentials(folder: Path) -> Credentials | None:
    """The credentials that were made for `folder`, or None."""
    try:
        values = json.loads((folder / "credentials.json").read_text(encoding="utf-8"))
        return Credentials(access_key=values["access_key"], secret_key=values["secret_key"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep_credentials(folder: Path, *, access_key: str | None = None, secret_key: str | None = None) -> Credentials:
    """The credentials of `folder`: the given ones, else the kept ones, else new ones; kept with mode 0600.

    Raises `InputError` for half a pair, or for keys under 8 characters or with a comma, quote or control character.
    """
    if (access_key is None) != (secret_key is None):
        raise InputError("an access key and a secret key belong together", remedy="give both or neither")
    kept = read_credentials(folder)
    if access_key is not None and secret_key is not None:
        wanted = Credentials(access_key=access_key, secret_key=secret_key)
    elif kept is not None:
        return kept
    else:
        wanted = Credentials(access_key=f"modelctl-{secrets.token_hex(4)}", secret_key=secrets.token_hex(20))
    for key in (wanted.access_key, wanted.secret_key):
        if len(key) < 8 or not key.isprintable() or any(character in ',"' for character in key):
            raise InputError("an S3 key needs 8 printable characters or more, without comma and quote")
    if wanted != kept:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        content = json.dumps({"access_key": wanted.access_key, "secret_key": wanted.secret_key}) + "\n"
        write_whole(folder / "credentials.json", content, mode=0o600)
    return wanted


def _answers(port: int, credentials: Credentials) -> bool:
    """Whether a signed request is answered: another program on the port, or other credentials, is not ready."""
    import urllib3
    from minio import Minio
    from minio.error import MinioException

    client = Minio(
        f"127.0.0.1:{port}",
        access_key=credentials.access_key,
        secret_key=credentials.secret_key,
        secure=False,
        region="us-east-1",
        http_client=urllib3.PoolManager(timeout=urllib3.Timeout(connect=1, read=2), retries=False),
    )
    try:
        client.list_buckets()
    except (MinioException, urllib3.exceptions.HTTPError):
        return False
    return True
