"""`weights.dvc`: DVC's own import of a release's prefix, so that `dvc pull` in a fresh clone brings the bytes.

It is what `dvc import-url --no-download remote://NAME/<name>/<version>` would write: the md5 of the listed ETags, which
tells DVC whether the prefix has changed. DVC does not hash what such an import brings. So the file also names the tree
digest, by which modelctl verifies it (`modelctl admit weights.dvc`, `modelctl verify`).

A server that keeps no ETag of an upload in parts reads every byte anew to list one. There that md5 is left out: DVC
asks for it in none of pull, fetch and status, since the import is frozen.
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator
from pathlib import Path

from modelctl.documents import read_text, write_yaml
from modelctl.errors import InputError
from modelctl.files import write_whole
from modelctl.model.dvc_pointer import folder_md5
from modelctl.registry.manifest import Served
from modelctl.registry.store import ObjectStore

POINTER_FILE = "weights.dvc"
OUTPUT = "weights"
REMOTE = "minio"
_REMOTE_SECTION = re.compile(r"""'?remote "([^"]+)"'?""")


def pointer_text(store: ObjectStore, served: Served, *, release_id: str, remote: str, lists_etags: bool = True) -> str:
    """The text of the pointer, from a listing of what the bucket holds now, or without the md5 of one.

    Raises `StoreError`.
    """
    prefix = served.uri.removeprefix(f"s3://{store.bucket}/") + "/"
    listed: dict[str, str] = {}
    if lists_etags:
        tags = {item.key.removeprefix(prefix): item.etag for item in store.server.listing(store.bucket, prefix)}
        listed = {"md5": folder_md5({file.path: tags.get(file.path, "") for file in served.files}, tags=True)}
    source = {
        **listed,
        "size": served.size_bytes,
        "nfiles": len(served.files),
        "hash": "md5",
        "path": f"remote://{remote}/{prefix.rstrip('/')}",
    }
    body = {
        "frozen": True,
        "deps": [source],
        "outs": [{"hash": "md5", "path": OUTPUT}],
        "meta": {"modelctl": {"release": release_id, "tree_digest": served.tree_digest}},
    }
    return write_yaml(body)


def ensure_remote(top: Path, store: ObjectStore) -> tuple[str, tuple[Path, ...]]:
    """The name of the remote that stands for the bucket in `.dvc/config` below `top`, and the files that were written.

    A repository without DVC's folder gets one, and one that has no remote for the bucket gets it added; what is there
    is never changed, and keys are never written. Raises `InputError` for a configuration that can't be read.
    """
    path = top / ".dvc" / "config"
    text = read_text(path) if path.is_file() else ""
    config = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    try:
        config.read_string(text)
    except configparser.Error as error:
        raise InputError(f"{path}: {str(error).splitlines()[0]}", remedy="dvc config --list shows it") from error
    remotes = dict(_remotes(config))
    for name, url in remotes.items():
        if url.rstrip("/") == f"s3://{store.bucket}":
            return name, ()
    name = REMOTE if REMOTE not in remotes else f"{REMOTE}-{store.bucket}"
    lines = [f"['remote \"{name}\"']", f"    url = s3://{store.bucket}"]
    lines.append(f"    endpointurl = {store.server.endpoint}")
    if store.server.region:
        lines.append(f"    region = {store.server.region}")
    core = [] if config.has_option("core", "remote") else ["[core]", f"    remote = {name}"]
    if config.has_section("core") and core:  # one section twice is an error to DVC
        text, core = re.sub(r"^\[core\][ \t]*$", f"[core]\n    remote = {name}", text, flags=re.MULTILINE), []
    path.parent.mkdir(exist_ok=True)
    write_whole(path, "\n".join([*text.splitlines(), *core, *lines, ""]))
    ignore = path.with_name(".gitignore")
    if not ignore.exists():
        write_whole(ignore, "/config.local\n/tmp\n/cache\n")
    return name, (path, ignore)


def dvc_files(top: Path) -> tuple[Path, ...]:
    """The files of `ensure_remote` that are there."""
    return tuple(path for path in (top / ".dvc" / "config", top / ".dvc" / ".gitignore") if path.is_file())


def _remotes(config: configparser.ConfigParser) -> Iterator[tuple[str, str]]:
    for section in config.sections():
        found = _REMOTE_SECTION.fullmatch(section)
        if found:
            yield found[1], config.get(section, "url", fallback="").strip('"')
