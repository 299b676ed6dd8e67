"""What goes wrong at the Hub, each with its own words and the command that mends it.

`explain` turns whatever the Hub's client raises into a `ModelctlError`. A status that another try may change is a
`TransientError`, which knows how long the Hub asks to wait.
"""

from __future__ import annotations

import email.utils
import os
import re
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from modelctl.errors import CannotDecideError, InputError, ModelctlError

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError

TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})
"""Statuses that say nothing about what was asked for."""
MAX_ERROR_BYTES = 1 << 16
"""How much of an error's body is read."""
_RESET = re.compile(r"(?:^|[;,\s])t=(\d{1,6})\b")


class TransientError(CannotDecideError):
    """The Hub is busy or broken: the same question may be answered later."""

    wait_s: float | None = None
    """Seconds that the Hub asks to wait."""


class UnreachableError(CannotDecideError):
    """No connection was made, or one went silent."""


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
        raise _unreachable(error, endpoint, repo_id, revision) from error
    except UnicodeEncodeError as error:
        raise InputError(
            f"the token of {token_origin() or 'HF_TOKEN'} holds a character that no token has",
            remedy="copy it anew: export HF_TOKEN=…",
        ) from error
    except ValueError as error:
        raise CannotDecideError(
            f"{endpoint} did not answer as a Hub does for {repo_id}: {error}", remedy="check HF_ENDPOINT"
        ) from error


def require_success(answer: Any) -> None:
    """Raise what the Hub's client raises for an error status, having read only the beginning of what was said.

    `answer` is an open response of the client library, httpx or its successor.
    """
    from huggingface_hub.utils import hf_raise_for_status

    if not answer.is_error:
        return
    said = b""
    for block in answer.iter_bytes():
        said += block
        if len(said) > MAX_ERROR_BYTES:
            break
    about_the_body = ("content-encoding", "content-length", "transfer-encoding")
    headers = [(name, value) for name, value in answer.headers.multi_items() if name.lower() not in about_the_body]
    hf_raise_for_status(
        type(answer)(answer.status_code, headers=headers, content=said[:MAX_ERROR_BYTES], request=answer.request)
    )


def token_origin() -> str | None:
    """Where the token comes from that the Hub is shown: a variable's name, a file, or None without a token."""
    from huggingface_hub import constants

    if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN:
        return None
    for name in ("HF_OIDC_RESOURCE", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        if os.environ.get(name, "").strip():
            return name
    try:
        with open(constants.HF_TOKEN_PATH, encoding="utf-8") as stream:  # noqa: PTH123 - a path of either type
            return str(constants.HF_TOKEN_PATH) if stream.read().strip() else None
    except (OSError, ValueError):
        return None


def asked_wait_s(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait by `Retry-After` (seconds or a date, RFC 9110 10.2.3), or by the Hub's `RateLimit: …;t=`."""
    after = headers.get("Retry-After", "").strip()
    if after.isascii() and after.isdigit() and len(after) < 10:
        return float(after)
    if after:
        try:
            return max(0.0, email.utils.parsedate_to_datetime(after).timestamp() - time.time())
        except (ValueError, OverflowError):
            pass
    reset = _RESET.search(headers.get("RateLimit", "")[:200])
    return float(reset[1]) if reset else None


def _unreachable(error: Exception, endpoint: str, repo_id: str, revision: str) -> ModelctlError:
    said = str(error) or type(error).__name__
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return CannotDecideError(
                f"{endpoint} shows no certificate that this machine trusts: {said}",
                remedy="for a private authority: export SSL_CERT_FILE=ca.pem; "
                "a mirror without TLS is named HF_ENDPOINT=http://…",
            )
        cause = cause.__cause__ or cause.__context__
    return UnreachableError(
        f"cannot reach {endpoint} for {repo_id}: {said}",
        remedy=f"check the network, HTTPS_PROXY and HF_ENDPOINT, or on a machine that has it: "
        f"hf download {repo_id} --revision {revision} --local-dir DIR, then: modelctl admit DIR",
    )


def _word(error: HfHubHTTPError, endpoint: str, repo_id: str, revision: str) -> ModelctlError:
    from huggingface_hub.errors import (
        DisabledRepoError,
        EntryNotFoundError,
        GatedRepoError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    status, token = error.response.status_code, token_origin()
    page = f"{endpoint}/{repo_id}"
    host = urlsplit(str(error.response.url)).netloc
    if host != urlsplit(endpoint).netloc and status in (401, 403, 404):
        return TransientError(
            f"{host}, where {endpoint} keeps the file, refuses it (status {status}): its link may have expired",
            remedy="run the same command again: it goes on where it stopped",
        )
    if isinstance(error, GatedRepoError):
        return _gated(repo_id, status, token, page)
    if isinstance(error, RevisionNotFoundError):
        return InputError(
            f"{repo_id} has no revision '{revision}'", remedy=f"its branches and tags are at {page}/tree/main"
        )
    if isinstance(error, DisabledRepoError):
        return InputError(f"{endpoint} has disabled {repo_id}", remedy=f"{page} says why; admit another repository")
    if isinstance(error, EntryNotFoundError):
        path = urlsplit(str(error.response.url)).path
        return CannotDecideError(
            f"{endpoint} lists a file of {repo_id}@{revision} that it does not have: {path[:300]}",
            remedy="check HF_ENDPOINT: a mirror may be incomplete",
        )
    if status == 401 and token:
        return CannotDecideError(
            f"{endpoint} refuses the token of {token} for {repo_id} (status 401)",
            remedy="it may have expired; export a valid one: export HF_TOKEN=…, or: hf auth login",
        )
    if status == 401:
        return InputError(
            f"without a token {endpoint} shows no repository {repo_id} (status 401): "
            "there is none, or it is private or gated",
            remedy="check the spelling; for a private one: export HF_TOKEN=…, or: hf auth login",
        )
    if isinstance(error, RepositoryNotFoundError) or status == 404:
        seen = f", or the token of {token} may not see it" if token else ""
        return InputError(
            f"{endpoint} has no repository {repo_id} (status {status}){seen}",
            remedy="check the spelling; for a private one: export HF_TOKEN=… (a token that may read it)",
        )
    if status == 403:
        whose = f"the token of {token}" if token else "a request without a token"
        return CannotDecideError(
            f"{endpoint} forbids {repo_id} to {whose} (status 403)",
            remedy=f"export HF_TOKEN=… with read access to the contents of {repo_id.partition('/')[0]}'s repositories",
        )
    return _later(error, endpoint, repo_id, token)


def _gated(repo_id: str, status: int, token: str | None, page: str) -> ModelctlError:
    if token is None:
        return CannotDecideError(
            f"{repo_id} is gated (status {status}), and no token was sent",
            remedy=f"accept its terms at {page}, then: export HF_TOKEN=… (a token that may read it), or: hf auth login",
        )
    return CannotDecideError(
        f"{repo_id} is gated (status {status}), and the account of the token in {token} has no access",
        remedy=f"accept its terms at {page} with that account, or: export HF_TOKEN=… of one that has",
    )


def _later(error: HfHubHTTPError, endpoint: str, repo_id: str, token: str | None) -> ModelctlError:
    """A rate limit, a failing server, and whatever else has no words of its own."""
    status = error.response.status_code
    said = (error.server_message or f"status {status}")[:300]
    if status not in TRANSIENT:
        return CannotDecideError(f"{endpoint} failed for {repo_id}: {said}", remedy="check HF_ENDPOINT")
    later: TransientError
    wait_s = asked_wait_s(error.response.headers)
    if status == 429:
        until = f"wait {wait_s:.0f} s" if wait_s is not None else "wait some minutes"
        more = "" if token else "; a token (export HF_TOKEN=…) raises the limit"
        later = TransientError(
            f"{endpoint} limits the rate of requests (status 429)",
            remedy=f"{until} and run the same command again{more}",
        )
    else:
        number = "" if str(status) in said else f" (status {status})"
        later = TransientError(
            f"{endpoint} failed for {repo_id}: {said}{number}", remedy="run the same command again later"
        )
    later.wait_s = wait_s
    return later
