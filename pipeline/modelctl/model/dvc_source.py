"""What a DVC pointer points at, brought by the `dvc` program into a workspace of our own and verified there.

Nobody's working tree or cache is touched. The workspace holds a copy of the pointer and of what the repository's
`.dvc/config` says of remotes, down to a list of options: others can make DVC's libraries start programs or read files
that a pull request names. DVC keeps what has arrived there, so that an interrupted download goes on.
"""

from __future__ import annotations

import configparser
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from modelctl.documents import read_text
from modelctl.errors import CannotDecideError, InputError
from modelctl.files import write_whole
from modelctl.git import Git
from modelctl.model.blobs import disk_errors, lay_out, require_space
from modelctl.model.dvc_pointer import Pointer, verify
from modelctl.progress import Progress

REMEDY = "pip install 'modelctl[dvc]' (it brings dvc), or: dvc pull, then modelctl admit FOLDER"
POLL_S = 0.5
_SECTION = re.compile(r"""'remote "[^'"\x00-\x1f]+"'|remote "[^'"\x00-\x1f]+\"""")
_OPTIONS = frozenset(
    {
        "url", "endpointurl", "region", "profile", "access_key_id", "secret_access_key", "session_token", "ssl_verify",
        "use_ssl", "listobjects", "jobs", "user", "port", "account_name",
    }
)  # fmt: skip


def dvc_program() -> Path | None:
    """`dvc` beside this Python, or on PATH; None when there is none."""
    beside = Path(sys.executable).parent / "dvc"
    if beside.is_file() and os.access(beside, os.X_OK):
        return beside
    found = shutil.which("dvc")
    return Path(found) if found else None


def describe_pointer(pointer: Pointer, shown: str) -> str:
    """For reports: the pointer, what it pins, and at which git commit it stands."""
    kind = "ETags" if pointer.by_tags else "md5"
    pins = f"tree {pointer.tree_digest}" if pointer.md5 is None else f"{kind} {pointer.md5}"
    return f"DVC pointer {shown} ({pins}; {_commit(pointer.path)})"


def _commit(path: Path) -> str:
    git = Git(path.parent)
    commit = git.head()
    if commit is None:
        return "in no git commit"
    state = git.run("status", "--porcelain", "--", path.name, check=False).strip()
    return f"changed since git {commit[:12]}" if state else f"git {commit[:12]}"


def fetch_pointer(pointer: Pointer, store: Path, progress: Progress) -> Path:
    """Pull what the pointer points at, and return a folder of it that was verified.

    Raises `CannotDecideError` without the program, when the remote does not deliver or the disk is full; `InputError`
    when the pointer lies in no DVC repository; `RefusedError` when the bytes are not those that the pointer names.
    """
    program = dvc_program()
    if program is None:
        raise CannotDecideError(f"{pointer.path} is a DVC pointer and dvc is not installed", remedy=REMEDY)
    repository = _repository(pointer.path)
    config = _config(repository, progress)
    content = read_text(pointer.path)
    mark = hashlib.sha256(f"{config}\0{content}".encode()).hexdigest()[:40]
    workspace = store / "dvc" / mark
    with disk_errors(store):
        (workspace / ".dvc").mkdir(parents=True, exist_ok=True)
        require_space(store, max(0, (pointer.size_bytes or 0) - _size(workspace)))
        write_whole(workspace / pointer.path.name, content)
        output = workspace / pointer.output
        _remove(output)
        try:
            write_whole(workspace / ".dvc" / "config", config, mode=0o600)
            _pull(program, workspace, pointer, progress)
        finally:
            (workspace / ".dvc" / "config").unlink(missing_ok=True)
        with progress.task(f"verify {pointer.path.name}", total=pointer.size_bytes, unit="bytes") as task:
            try:
                verify(pointer, output, task.advance)
            except BaseException:
                _remove(workspace)  # what DVC keeps may be what is wrong: the next run starts anew
                raise
        if output.is_dir():
            return output
        return lay_out(store / "snapshots" / "dvc" / mark, {output.name: output})


def _repository(path: Path) -> Path:
    """The folder whose `.dvc/config` holds for a pointer."""
    for folder in path.resolve().parents:
        if (folder / ".dvc").is_dir():
            return folder
        if (folder / ".git").exists():
            break
    raise InputError(
        f"{path}: no .dvc folder between the pointer and the top of its git repository",
        remedy="dvc init && dvc remote add -d NAME s3://BUCKET",
    )


def _config(repository: Path, progress: Progress) -> str:
    """The configuration of our own workspace: the repository's remotes, its local secrets, and nothing else."""
    merged = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    for name in ("config", "config.local"):
        path = repository / ".dvc" / name
        if not path.is_file():
            continue
        try:
            merged.read_string(read_text(path), source=str(path))
        except configparser.Error as error:
            raise InputError(f"{path}: {str(error).splitlines()[0]}", remedy="dvc config --list shows it") from error
    lines = ["[core]", "no_scm = true", "analytics = false", "check_update = false"]
    if default := merged.get("core", "remote", fallback=None):
        lines.append(f"remote = {default}")
    lines += ["[cache]", 'type = "hardlink,copy"']
    for section in merged.sections():
        if _SECTION.fullmatch(section):
            lines += [f"[{section}]", *_options(merged, section, repository, progress)]
    return "\n".join(lines) + "\n"


def _options(merged: configparser.ConfigParser, section: str, repository: Path, progress: Progress) -> Iterator[str]:
    for option, value in merged.items(section):
        if option not in _OPTIONS or "\n" in value:
            progress.note(f"option {option} of {section.strip(chr(39))} in .dvc/config is not handed to dvc")
        elif option == "url" and "://" not in value:  # a folder, named from where the file stands
            yield f"url = {(repository / '.dvc' / value.strip(chr(34))).resolve()}"
        else:
            yield f"{option} = {value}"


def _pull(program: Path, workspace: Path, pointer: Pointer, progress: Progress) -> None:
    environ = {
        **os.environ, "DVC_NO_ANALYTICS": "true", "DVC_SITE_CACHE_DIR": str(workspace / ".dvc" / "site"),
    }  # fmt: skip
    have = _size(workspace)
    with (
        progress.task(f"dvc pull {pointer.path.name}", total=pointer.size_bytes, unit="bytes") as task,
        subprocess.Popen(
            [str(program), "pull", pointer.path.name],
            cwd=workspace,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as child,
    ):
        try:
            while True:
                try:
                    words = child.communicate(timeout=POLL_S)[1]
                    break
                except subprocess.TimeoutExpired:
                    now = _size(workspace)
                    task.advance(now - have)
                    have = now
        except BaseException:
            child.kill()
            raise
    if child.returncode:
        said = [line for line in words.decode(errors="replace").splitlines() if line.startswith("ERROR: ")]
        detail = said[0].removeprefix("ERROR: ") if said else f"status {child.returncode}"
        raise CannotDecideError(
            f"dvc pull {pointer.path}: {detail}",
            remedy=f"cd {pointer.path.parent} && dvc pull --verbose {pointer.path.name} shows why",
        )


def _size(workspace: Path) -> int:
    """Bytes that DVC keeps in its cache there."""
    total = 0
    for folder, _, names in os.walk(workspace / ".dvc" / "cache"):
        for name in names:
            try:
                total += Path(folder, name).lstat().st_size
            except FileNotFoundError:  # renamed meanwhile
                continue
    return total


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
