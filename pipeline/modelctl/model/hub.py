"""The Hugging Face Hub as a source: one name resolved once to one commit, and what the Hub says of every file there.

Everything after the first answer asks for that commit, so a branch that moves meanwhile changes nothing. `HF_ENDPOINT`
(a mirror) and the token (`HF_TOKEN`, or the file of `hf auth login`) are read when a call is made. A busy or failing
Hub is asked again, a bounded number of times; how every failure is worded is in `hub_errors`.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from modelctl.errors import CannotDecideError, InputError, RefusedError
from modelctl.model.hub_errors import TransientError, explain, require_success
from modelctl.model.listing import Upstream, UpstreamFile
from modelctl.model.retries import Retries
from modelctl.model.tree import MAX_FILES
from modelctl.progress import SILENT, Progress

COMMIT = re.compile(r"[0-9a-f]{40}")
SHA256 = re.compile(r"[0-9a-f]{64}")
TIMEOUT_S = 30.0
"""Longest silence of the Hub, in seconds."""
DEFAULT_ENDPOINT = "https://huggingface.co"
MAX_ANSWER_BYTES = 64 << 20
"""The longest answer that is read: a page of the Hub's listing has under 1 MiB."""
MAX_ENTRIES = 4 * MAX_FILES
"""Files and folders of one listing."""


@dataclass(frozen=True, kw_only=True)
class Hub:
    """One Hub endpoint, and who is told when it is waited for."""

    endpoint: str = field(default_factory=lambda: (os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/"))
    progress: Progress = SILENT
    sleep: Callable[[float], object] = field(default=time.sleep, repr=False)

    def listing(self, repo_id: str, revision: str) -> Upstream:
        """Resolve `revision` (branch, tag or commit) to its commit and list the files there.

        Raises `InputError` for a repository or revision that is not there, `CannotDecideError` when the Hub does not
        let us know, `RefusedError` for a listing that no git repository can have.
        """
        from huggingface_hub.utils import validate_repo_id

        if urlsplit(self.endpoint).scheme not in ("http", "https") or not urlsplit(self.endpoint).netloc:
            raise InputError(
                f"HF_ENDPOINT is '{self.endpoint}', wanted http(s)://HOST", remedy=f"unset it for {DEFAULT_ENDPOINT}"
            )
        with explain(self.endpoint, repo_id, revision):
            validate_repo_id(repo_id)
            commit = self._commit(repo_id, revision)
            files: dict[str, UpstreamFile] = {}
            for file in self._files(repo_id, commit):
                if file.path in files:
                    raise _impossible(file.path, "twice")
                files[file.path] = file
            for path in files:
                for end in (place for place, character in enumerate(path) if character == "/"):
                    if path[:end] in files:
                        raise _impossible(path[:end], "as a file and as a folder")
            return Upstream(repo_id=repo_id, commit=commit, files=files)

    def file_url(self, repo_id: str, commit: str, path: str) -> str:
        """Where one file of a commit is downloaded."""
        return f"{self.endpoint}/{repo_id}/resolve/{commit}/{quote(path)}"

    def headers(self) -> dict[str, str]:
        """Request headers with the token of `HF_TOKEN` or of `hf auth login`."""
        from huggingface_hub.utils import build_hf_headers

        try:
            return build_hf_headers(library_name="modelctl")
        except OSError as error:
            raise CannotDecideError(
                f"cannot read the token: {error}", remedy="export HF_TOKEN=…, or mend it with hf auth login"
            ) from error

    def _commit(self, repo_id: str, revision: str) -> str:
        answer, _ = self._json(
            f"{self.endpoint}/api/models/{repo_id}/revision/{quote(revision, safe='')}", repo_id, revision
        )
        about = answer if isinstance(answer, dict) else {}
        named, commit = about.get("id"), about.get("sha")
        if isinstance(named, str) and named != repo_id:
            raise InputError(
                f"{self.endpoint} answers for {named[:120]!a} when asked for {repo_id}: it was renamed",
                remedy="look who owns it now, then name it as the Hub does",
            )
        if (
            not isinstance(commit, str)
            or not COMMIT.fullmatch(commit)
            or (COMMIT.fullmatch(revision) and commit != revision)
        ):
            raise CannotDecideError(
                f"{self.endpoint} resolved {repo_id}@{revision} to {str(commit)[:80]!a}, which is not that commit",
                remedy="check HF_ENDPOINT",
            )
        return commit

    def _files(self, repo_id: str, commit: str) -> Iterator[UpstreamFile]:
        url: str | None = f"{self.endpoint}/api/models/{repo_id}/tree/{commit}?recursive=true&expand=false"
        entries = files = 0
        while url is not None:
            page, following = self._json(url, repo_id, commit)
            items = _items(page, url)
            entries += len(items)
            if entries > MAX_ENTRIES or (following and not items):
                raise CannotDecideError(
                    f"{repo_id}@{commit}: the listing has no end: {entries} entries so far", remedy="check HF_ENDPOINT"
                )
            for item in items:
                if item.get("type") == "file":
                    files += 1
                    if files > MAX_FILES:
                        raise InputError(f"{repo_id}@{commit}: more than {MAX_FILES} files")
                    yield _file(item)
            url = following

    def _json(self, url: str, repo_id: str, revision: str) -> tuple[Any, str | None]:
        """One answer of the API and the address of its next page; a busy Hub is asked again."""
        retries = Retries()
        while True:
            try:
                with explain(self.endpoint, repo_id, revision):
                    return self._ask(url)
            except TransientError as error:
                wait_s = retries.next_wait_s(error.wait_s)
                if wait_s is None:
                    raise
                self.progress.note(f"{error.message}; asking again in {wait_s:.0f} s")
            self.sleep(wait_s)

    def _ask(self, url: str) -> tuple[Any, str | None]:
        from huggingface_hub import get_session

        body = bytearray()
        with get_session().stream(
            "GET", url, headers=self.headers(), timeout=TIMEOUT_S, follow_redirects=True
        ) as answer:
            require_success(answer)
            for block in answer.iter_bytes():
                body += block
                if len(body) > MAX_ANSWER_BYTES:
                    raise CannotDecideError(
                        f"{url} answers with more than {MAX_ANSWER_BYTES >> 20} MiB", remedy="check HF_ENDPOINT"
                    )
            link = answer.links.get("next", {}).get("url")
            following = str(answer.url.join(link)) if link else None
        if following and urlsplit(following)[:2] != urlsplit(self.endpoint)[:2]:
            raise CannotDecideError(
                f"{self.endpoint} continues its listing at {following[:120]!a}", remedy="check HF_ENDPOINT"
            )
        return json.loads(body), following


def _impossible(path: str, how: str) -> RefusedError:
    return RefusedError(f"the Hub lists {path!a:.120} {how}", remedy="use another revision, or report the repository")


def _items(page: Any, url: str) -> list[dict[str, Any]]:
    if not isinstance(page, list) or not all(isinstance(item, dict) for item in page):
        raise CannotDecideError(f"{url} did not answer with a list of files", remedy="check HF_ENDPOINT")
    return page


def _file(item: Mapping[str, Any]) -> UpstreamFile:
    path, size, oid, lfs = item.get("path"), item.get("size"), item.get("oid"), item.get("lfs")
    sha256 = lfs.get("oid") if isinstance(lfs, dict) else None
    if not isinstance(path, str) or not is_plain_path(path):
        raise RefusedError(
            f"the Hub lists {path!a:.120}, which is no path inside a repository",
            remedy="use another revision, or report the repository",
        )
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise CannotDecideError(f"the Hub gives no size for {path}", remedy="check HF_ENDPOINT")
    if sha256 is not None and isinstance(sha256, str) and SHA256.fullmatch(sha256):
        return UpstreamFile(path=path, size_bytes=size, sha256=sha256, blob_sha1=None)
    if lfs is None and isinstance(oid, str) and COMMIT.fullmatch(oid):
        return UpstreamFile(path=path, size_bytes=size, sha256=None, blob_sha1=oid)
    raise CannotDecideError(f"the Hub gives no hash for {path}", remedy="check HF_ENDPOINT")


def is_plain_path(path: str) -> bool:
    """Whether a listed path stays inside the folder it is joined to, on every system."""
    parts = path.split("/")
    return (
        path == posixpath.normpath(path)
        and not path.startswith("/")
        and not {"", ".", ".."} & set(parts)
        and not re.search(r"[\x00-\x1f\x7f\\:]|[\ud800-\udfff]", path)
        and len(path.encode()) < 1024
    )
