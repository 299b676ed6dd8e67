"""What an object store can answer, as errors with the next command: unreachable, refused, no bucket, not S3 at all.

Some servers answer errors with a content type that the minio client does not take for S3's, and their code then hides
in the text of an `InvalidResponseError`; it is read from there. No message repeats a URL, since a presigned one is a
credential.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape

from modelctl.errors import ModelctlError

_NO_SUCH_THING = ("NoSuchKey", "NoSuchObject", "NoSuchVersion", "ResourceNotFound", "NotFound")
_REFUSED = (
    "AccessDenied",
    "SignatureDoesNotMatch",
    "InvalidAccessKeyId",
    "ExpiredToken",
    "InvalidToken",
    "AllAccessDisabled",
)
_BUSY = (
    "SlowDown",
    "SlowDownRead",
    "SlowDownWrite",
    "ServiceUnavailable",
    "RequestTimeout",
    "XMinioServerNotInitialized",
)
_UNKNOWN = ("NotImplemented", "MethodNotAllowed", "XNotImplemented")
_KEYS = "export MODELCTL_STORE_ACCESS_KEY=… MODELCTL_STORE_SECRET_KEY=… (of a user that may use this bucket)"


class StoreError(ModelctlError):
    """The object store did not do what was asked."""


class StoreUnavailableError(StoreError):
    """The connection failed or broke; the same request may succeed later."""


class NotSupportedError(StoreError):
    """The server does not know this request."""


class AlreadyThereError(StoreError):
    """The condition of a request does not hold: the object is there already, or is in another state."""


class NoSuchObjectError(StoreError):
    """There is no such object."""


class NoSuchBucketError(StoreError):
    """There is no such bucket."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Which store errors are about."""

    endpoint: str
    bucket: str

    def __str__(self) -> str:
        return f"bucket '{self.bucket}' at {self.endpoint}"


@contextmanager
def translated(action: str, place: Place) -> Iterator[None]:
    """Turn what the minio client and urllib3 raise within the block into `StoreError`s that say what was tried."""
    import urllib3.exceptions
    from minio.error import InvalidResponseError, MinioException, S3Error, ServerError

    try:
        yield
    except S3Error as error:
        raise _by_code(action, place, str(error.code), str(error.message or "")) from error
    except InvalidResponseError as error:
        words = str(error)
        code = _first(r"<Code>(\w+)</Code>", words)
        status = _first(r"Response code: (\d+)", words)
        raise _by_code(
            action, place, code, unescape(_first(r"<Message>([^<]*)</Message>", words)), status=status
        ) from error
    except ServerError as error:
        raise _by_code(action, place, "", "", status=str(error.status_code)) from error
    except SyntaxError as error:  # what Python's XML parser raises: the answer is no XML
        raise _not_s3(action, place, "without XML") from error
    except (MinioException, ValueError) as error:
        raise StoreError(f"cannot {action}: {error} ({place})", remedy="modelctl config show") from error
    except urllib3.exceptions.HTTPError as error:
        raise _connection(action, place, error) from error


def _by_code(action: str, place: Place, code: str, message: str, *, status: str = "") -> StoreError:
    detail = f"{code or f'HTTP {status}'}{f': {message}' if message else ''}"
    if code in _NO_SUCH_THING:
        return NoSuchObjectError(f"cannot {action}: no such object in {place}")
    if code == "NoSuchBucket":
        return NoSuchBucketError(
            f"cannot {action}: no {place}", remedy="check store.bucket and store.endpoint (modelctl config show)"
        )
    if code in ("PreconditionFailed", "ConditionalRequestConflict") or status == "412":
        return AlreadyThereError(
            f"cannot {action}: the object in {place} is no longer the one that was listed",
            remedy="run the same command again when nobody writes there",
        )
    if code == "RequestTimeTooSkewed" or "difference between the request time" in message:
        return StoreError(
            f"cannot {action}: the clocks of this machine and of {place.endpoint} are too far apart ({detail})",
            remedy="timedatectl status, here and on the store's host: synchronise the one that is wrong",
        )
    if code in _BUSY or status == "503":
        return StoreUnavailableError(
            f"cannot {action}: {place.endpoint} has too much to do ({detail})",
            remedy="run the same command again later",
        )
    if code in _UNKNOWN or status in ("405", "501"):
        return NotSupportedError(
            f"cannot {action}: {place.endpoint} does not know how ({detail})",
            remedy="modelctl doctor shows what it can",
        )
    if code in _REFUSED or status in ("401", "403"):
        return StoreError(f"cannot {action}: {place} refused the access key ({detail})", remedy=_KEYS)
    if not code:
        return _not_s3(action, place, f"HTTP {status}")
    return StoreError(f"cannot {action}: {detail} ({place})", remedy="see the log of the object store")


def _not_s3(action: str, place: Place, what: str) -> StoreError:
    return StoreError(
        f"cannot {action}: {place.endpoint} answered {what}, and not as an S3 server does",
        remedy="check store.endpoint: the S3 API's address, not the console's (modelctl config show)",
    )


def _connection(action: str, place: Place, error: Exception) -> StoreError:
    import urllib3.exceptions

    reason = getattr(error, "reason", None) or error
    words = re.sub(r"https?://\S+|\(url: \S+\)", "", str(reason)).split(": ", 1)[-1].strip() or type(reason).__name__
    if isinstance(reason, urllib3.exceptions.ResponseError):  # the same answer at every try
        return StoreUnavailableError(
            f"cannot {action}: {place.endpoint} failed or has too much to do: {words}",
            remedy="see the log of the object store, then run the same command again",
        )
    if isinstance(reason, urllib3.exceptions.SSLError):
        return StoreError(
            f"cannot {action}: no trusted TLS connection to {place.endpoint}: {words}",
            remedy="set store.ca_file (MODELCTL_STORE_CA_FILE) to the authority's file, or write http://",
        )
    return StoreUnavailableError(
        f"cannot {action}: {place.endpoint} is not reachable: {words}",
        remedy="modelctl services up (a local one), or check store.endpoint; then run the same command again",
    )


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found.group(1) if found else ""
