"""One small file of a Hub repository, for those who need no more: bounded, and held against the listing's hash."""

from __future__ import annotations

from modelctl.errors import InputError, RefusedError
from modelctl.model.hub import TIMEOUT_S, Hub
from modelctl.model.hub_errors import explain, require_success
from modelctl.model.listing import Upstream, new_digest

MAX_BYTES = 32 << 20
"""An index of the largest models has some 5 MiB."""


def read_small(hub: Hub, upstream: Upstream, path: str) -> bytes:
    """The content of a listed file.

    Raises `InputError` for one that is too large, `CannotDecideError` when the Hub does not let us know,
    `RefusedError` when the bytes are not the listed ones.
    """
    from huggingface_hub import get_session

    file = upstream.files[path]
    if file.size_bytes > MAX_BYTES:
        raise InputError(f"{upstream.repo_id}: {path} has {file.size_bytes} bytes, wanted at most {MAX_BYTES}")
    body = bytearray()
    with explain(hub.endpoint, upstream.repo_id, upstream.commit):
        url = hub.file_url(upstream.repo_id, upstream.commit, path)
        with get_session().stream(
            "GET", url, headers=hub.headers(), timeout=TIMEOUT_S, follow_redirects=True
        ) as answer:
            require_success(answer)
            for block in answer.iter_bytes():
                body += block
                if len(body) > file.size_bytes:
                    break
    digest = new_digest(file, size_bytes=file.size_bytes)
    digest.update(bytes(body))
    if len(body) != file.size_bytes or digest.hexdigest() != file.digest:
        raise RefusedError(
            f"{upstream.repo_id}: {path} as it was sent is not the file that the Hub lists",
            remedy="check HF_ENDPOINT and what lies between here and there",
        )
    return bytes(body)
