"""The Hugging Face Hub as a source: one name resolved once to one commit, and what the Hub says of every file there.

Everything after the first answer asks for that commit, so a branch that moves meanwhile changes nothing. `HF_ENDPOINT`
and `HF_TOKEN` are read when a call is made. Every failure is worded once, in `explain`, with the command that mends it.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from modelctl.errors import CannotDecideError, InputError, ModelctlError, RefusedError
from modelctl.model.listing import Upstream, UpstreamFile
from modelctl.model.tree import MAX_FILES

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError

COMMIT = re.compile(r"[0-9a-f]{40}")
SHA256 = re.compile(r"[0-9a-f]{64}")
TIMEOUT_S = 30.0
"""Longest silence of the Hub, in seconds."""
DEFAULT_ENDPOINT = "https://huggingface.co"


@dataclass(frozen=True, kw_only=True)
class Hub:
    """One Hub endpoint and the token to show it."""

    endpoint: str = field(default_factory=lambda: (os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/"))

    def listing(self, repo_id: str, revision: str) -> Upstream:
        """Resolve `revision` (branch, tag or commit) to its commit and list the files there.

        Raises `InputError` for a repository or revision that is not there, `CannotDecideError` when the Hub does not
        let us know, `RefusedError` for a listing that no git repository can have.
        """
        with explain(self.endpoint, repo_id, revision):
            commit = self._commit(repo_id, revision)
            return Upstream(repo_id=repo_id, commit=commit, files=dict(self._files(repo_id, commit)))

    def file_url(self, repo_id: str, commit: str, path: str) -> str:
        """Where one file of a commit is downloaded."""
        return f"{self.endpoint}/{repo_id}/resolve/{commit}/{quote(path)}"

    def headers(self) -> dict[str, str]:
        """Request headers with the token of `HF_TOKEN` or of `hf auth login`."""
        from huggingface_hub.utils import build_hf_headers

        return build_hf_headers(library_name="modelctl")

    def _commit(self, repo_id: str, revision: str) -> str:
        from huggingface_hub import HfApi

        commit = HfApi(endpoint=self.endpoint).model_info(repo_id, revision=revision, timeout=TIMEOUT_S).sha or ""
        if not COMMIT.fullmatch(commit) or (COMMIT.fullmatch(revision) and commit != revision):
            raise CannotDecideError(
                f"{self.endpoint} resolved {repo_id}@{revision} to {commit[:80]!a}, which is not that commit",
                remedy="check HF_ENDPOINT",
            )
        return commit

    def _files(self, repo_id: str, commit: str) -> Iterator[tuple[str, UpstreamFile]]:
        from huggingface_hub import get_session
        from huggingface_hub.utils import hf_raise_for_status

        url: str | None = f"{self.endpoint}/api/models/{repo_id}/tree/{commit}?recursive=true&expand=false"
        count = 0
        while url is not None:
            answer = get_session().get(url, headers=self.headers(), timeout=TIMEOUT_S)
            hf_raise_for_status(answer)
            for item in _items(answer.json(), url):
                if item.get("type") == "file":
                    file = _file(item)
                    count += 1
                    if count > MAX_FILES:
                        raise InputError(f"{repo_id}@{commit}: more than {MAX_FILES} files")
                    yield file.path, file
            following = answer.links.get("next", {}).get("url")
            url = str(answer.url.join(following)) if following else None


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


def client_error() -> type[Exception]:
    """The base of everything that the Hub's HTTP client raises; the client library changed between releases."""
    from huggingface_hub.errors import HfHubHTTPError

    base = HfHubHTTPError.__bases__[0]
    return base if issubclass(base, Exception) else HfHubHTTPError


@contextmanager
def explain(endpoint: str, repo_id: str, revision: str) -> Iterator[None]:
    """Turn what the Hub's client raises into a `ModelctlError` that says what to do."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

    try:
        yield
    except HfHubHTTPError as error:
        raise _word(error, endpoint, repo_id, revision) from error
    except HFValidationError as error:
        raise InputError(f"'{repo_id}' is no Hub id: {error}", remedy="write ORG/NAME or a folder's path") from error
    except OfflineModeIsEnabled as error:
        raise CannotDecideError(
            f"HF_HUB_OFFLINE is set, and {repo_id} must be asked for at {endpoint}",
            remedy="unset HF_HUB_OFFLINE, or name a downloaded folder",
        ) from error
    except (client_error(), ConnectionError, TimeoutError) as error:
        raise CannotDecideError(
            f"cannot reach {endpoint} for {repo_id}: {str(error) or type(error).__name__}",
            remedy=f"check the network and HF_ENDPOINT, or on a machine that has it: "
            f"hf download {repo_id} --revision {revision} --local-dir DIR, then: modelctl admit DIR",
        ) from error
    except ValueError as error:
        raise CannotDecideError(
            f"{endpoint} did not answer as a Hub does for {repo_id}: {error}", remedy="check HF_ENDPOINT"
        ) from error


def _word(error: HfHubHTTPError, endpoint: str, repo_id: str, revision: str) -> ModelctlError:
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    status = error.response.status_code
    page = f"{endpoint}/{repo_id}"
    if isinstance(error, GatedRepoError):
        return CannotDecideError(
            f"{repo_id} is gated (status {status})",
            remedy=f"accept its terms at {page}, then: export HF_TOKEN=… (a token that may read it)",
        )
    if isinstance(error, RevisionNotFoundError):
        return InputError(
            f"{repo_id} has no revision '{revision}'", remedy=f"its branches and tags are at {page}/tree/main"
        )
    if status == 401 and os.environ.get("HF_TOKEN"):
        return CannotDecideError(f"{endpoint} refuses the token in HF_TOKEN for {repo_id}", remedy="export a valid one")
    if isinstance(error, RepositoryNotFoundError) or status in (401, 404):
        return InputError(
            f"{endpoint} has no repository {repo_id}, or it is private (status {status})",
            remedy="check the spelling; for a private one: export HF_TOKEN=…",
        )
    if status == 429:
        wait = error.response.headers.get("Retry-After")
        return CannotDecideError(
            f"{endpoint} limits the rate of requests (status 429)",
            remedy=f"wait {f'{wait} s' if wait else 'some minutes'} and run the same command again; "
            "a token (export HF_TOKEN=…) raises the limit",
        )
    said = error.server_message or f"status {status}"
    return CannotDecideError(f"{endpoint} failed for {repo_id}: {said}", remedy="run the same command again later")
