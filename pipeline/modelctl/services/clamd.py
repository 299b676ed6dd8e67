"""A private clamd for a laptop, a CI runner and the demo: limits raised to the most that clamd can do.

It loads the official database where there is one: the system's, or one of its own that `freshclam` fetched with the
`freshclam.conf` written beside it, which needs no root; the newer of both. Nothing is downloaded unasked. Without one
it loads a small database that knows the EICAR test file and nothing else, and says so, with the command. Started by
root it hands its rights over to the `clamav` user where that user can reach its folder, else it stays root.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import pwd
import shlex
import shutil
import socket
import tempfile
from pathlib import Path

from modelctl.errors import CannotDecideError, InputError
from modelctl.services import clamd_conf
from modelctl.services.eicar import eicar
from modelctl.services.process import Service

SYSTEM_DATABASE = Path("/var/lib/clamav")
OWN_DATABASE = "signatures"
"""Where a private clamd keeps the official database, in its folder."""
MAX_SOCKET_PATH = 107
_SYSTEM_USER = "clamav"


def clamd_program() -> Path | None:
    """The clamd of this machine, or None."""
    found = shutil.which("clamd", path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/usr/local/sbin")
    return Path(found) if found else None


def official_database(own: Path | None = None) -> Path | None:
    """The folder that holds both parts, main and daily: the system's or `own`, the one whose daily part is newer."""
    ages = {folder: age for folder in (SYSTEM_DATABASE, own) if folder and (age := _daily_mtime(folder)) is not None}
    return max(ages, key=ages.__getitem__, default=None)


def fetch_command(folder: Path) -> str | None:
    """What fetches the official database for a private clamd in `folder`, without root; None where there is one."""
    if official_database(folder / OWN_DATABASE) is not None:
        return None
    return f"freshclam --config-file={shlex.quote(str(folder / 'freshclam.conf'))}"


def _daily_mtime(folder: Path) -> float | None:
    parts = [[folder / f"{part}.{kind}" for kind in ("cvd", "cld")] for part in ("main", "daily")]
    main, daily = ([path for path in part if path.is_file()] for part in parts)
    return max(path.stat().st_mtime for path in daily) if main and daily else None


def private_clamd(folder: Path, *, database: Path | None = None) -> Service:
    """Write the configuration of a clamd that lives in `folder`, to be started with `services.process`.

    `database` is a folder of signatures; by default the official one, else the small one. Raises `CannotDecideError`
    when clamd is not installed, `InputError` when `database` holds no signatures.
    """
    program = clamd_program()
    if program is None:
        raise CannotDecideError("clamd is not installed", remedy="apt-get install clamav-daemon clamav-freshclam")
    folder = folder.absolute()
    run = folder / "run"
    run.mkdir(parents=True, exist_ok=True)
    own = folder / OWN_DATABASE
    own.mkdir(exist_ok=True)
    small = False
    if database is None:
        database = official_database(own)
        if database is None:
            database, small = _write_small_database(folder / "database"), True
    elif not database.is_dir() or not any(path.is_file() for path in database.iterdir()):
        raise InputError(f"{database}: no folder with signatures in it", remedy="run freshclam, or name its folder")
    address = _socket_path(run)
    user = _user([run, address.parent, own, *([database] if small else [])])
    (folder / "freshclam.conf").write_text(
        f"DatabaseDirectory {_quoted(own)}\nDatabaseOwner {user}\nDatabaseMirror database.clamav.net\n",
        encoding="utf-8",
    )
    configuration = folder / "clamd.conf"
    configuration.write_text(_configuration(address=address, run=run, database=database, user=user), encoding="utf-8")
    what = "small test database: EICAR only" if small else f"signatures of {database}"
    return Service(
        name="clamd",
        argv=(str(program), f"--config-file={configuration}"),
        folder=folder,
        address=str(address),
        detail=f"{what}; runs as {user}",
        ready=lambda: _answers(address),
        scratch=f"{run.name}/clamav-*",
        ready_timeout_s=180.0,  # the official database takes half a minute to load, more on a busy machine
    )


def _configuration(*, address: Path, run: Path, database: Path, user: str) -> str:
    return clamd_conf.text(
        {
            "Foreground": "yes",
            "LocalSocket": _quoted(address),
            "LocalSocketMode": "600",
            "FixStaleSocket": "yes",
            "DatabaseDirectory": _quoted(database),
            "TemporaryDirectory": _quoted(run),
            "User": user,
            **clamd_conf.limits(clamd_conf.MAX_BYTES),
            **clamd_conf.SERVING,
        }
    )


def _quoted(path: Path) -> str:
    if any(character in str(path) for character in '"\n\r'):
        raise InputError(
            f"{str(path)!r}: clamd's configuration can't name this path", remedy="use a folder with a plainer name"
        )
    return f'"{path}"'


def _socket_path(run: Path) -> Path:
    path = run / "clamd.sock"
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH:
        return path
    # the same folder gets the same short name, so that a second start finds the first one's socket
    short = (
        Path(tempfile.gettempdir())
        / f"modelctl-clamd-{os.getuid()}-{hashlib.sha256(os.fsencode(run)).hexdigest()[:12]}"
    )
    short.mkdir(mode=0o700, exist_ok=True)
    if short.is_symlink() or short.stat().st_uid not in (os.getuid(), _uid(_SYSTEM_USER)):
        raise CannotDecideError(
            f"{short} belongs to somebody else", remedy="remove it, or set TMPDIR to a folder of your own"
        )
    return short / "clamd.sock"


def _user(folders: list[Path]) -> str:
    """The user that clamd is to be; the folders are given to it. Only root can choose."""
    uid = _uid(_SYSTEM_USER)
    if os.getuid() != 0:
        return getpass.getuser()
    reachable = all(parent.stat().st_mode & 0o001 for folder in folders for parent in folder.resolve().parents)
    if uid is None or not reachable:
        return "root"
    for folder in folders:
        for path in (folder, *folder.iterdir()):
            os.chown(path, uid, -1, follow_symlinks=False)
    return _SYSTEM_USER


def _uid(name: str) -> int | None:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def _write_small_database(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    test_file = eicar()
    digest = hashlib.md5(test_file, usedforsecurity=False).hexdigest()
    (folder / "modelctl.hdb").write_text(f"{digest}:{len(test_file)}:Eicar-Test-File\n", encoding="ascii")
    (folder / "modelctl.ndb").write_text(f"Eicar-Test-Signature:0:*:{test_file.hex()}\n", encoding="ascii")
    return folder


def _answers(address: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        try:
            client.connect(str(address))
            client.sendall(b"zPING\0")
            return client.recv(16) == b"PONG\0"
        except OSError:
            return False
