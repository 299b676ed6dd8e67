"""Where the keys to an S3 server come from: the settings, then what MinIO's and Amazon's own tools read.

Both halves of a pair are of one place, never one from here and one from there. A secret is in no representation and in
no message. Nothing is started to get one: a profile that names a program or a single sign-on is an error with the
command that turns it into variables.
"""

from __future__ import annotations

import configparser
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from modelctl.errors import InputError
from modelctl.settings import Store

_MINIO = (("MINIO_ACCESS_KEY", "MINIO_SECRET_KEY"), ("MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD"))
_AWS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_OWN = ("MODELCTL_STORE_ACCESS_KEY", "MODELCTL_STORE_SECRET_KEY")
_MC_HOST = "MC_HOST_"
_ELSEWHERE = ("credential_process", "sso_session", "sso_start_url", "role_arn", "credential_source")


@dataclass(frozen=True, kw_only=True)
class Keys:
    """A pair of keys and the place they came from; all None where there are none: requests then go unsigned."""

    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    region: str | None = None
    """The region that the same place names."""
    origin: str = "nowhere: requests go unsigned"


def find_keys(settings: Store, endpoint: str, environ: Mapping[str, str]) -> Keys:
    """The first pair of: settings, `store.profile`, MINIO_…, MC_HOST_…, AWS_…, mc's file, AWS's default profile.

    What mc knows counts only for the server at `endpoint`. Raises `InputError` for half a pair, a profile that is not
    there or has no keys in its files, and a file that can't be read.
    """
    return next(_places(settings, endpoint, environ), Keys())


def _places(settings: Store, endpoint: str, environ: Mapping[str, str]) -> Iterator[Keys]:
    own = {_OWN[0]: settings.access_key or "", _OWN[1]: settings.secret_key or ""}
    yield from _pair(own, _OWN, origin="the settings", token=settings.session_token)
    if settings.profile:
        yield _aws_profile(settings.profile, environ, origin="store.profile")
    for names in _MINIO:
        yield from _pair(environ, names, origin=names[0])
    yield from _mc_variables(endpoint, environ)
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    yield from _pair(environ, _AWS, origin=_AWS[0], token=environ.get("AWS_SESSION_TOKEN") or None, region=region)
    if profile := environ.get("AWS_PROFILE"):
        yield _aws_profile(profile, environ, origin="AWS_PROFILE")
    yield from _mc_file(endpoint, environ)
    if "default" in _aws_sections(environ):
        found = _aws_profile("default", environ, origin="", strict=False)
        if found.access_key:
            yield found


def _pair(
    values: Mapping[str, str],
    names: tuple[str, str],
    *,
    origin: str,
    token: str | None = None,
    region: str | None = None,
) -> Iterator[Keys]:
    access_key, secret_key = (values.get(name) or None for name in names)
    if (access_key is None) != (secret_key is None):
        missing = names[1] if access_key else names[0]
        raise InputError("only half of the object store's keys is set", remedy=f"export {missing}=…")
    if access_key:
        yield Keys(
            access_key=access_key, secret_key=secret_key, session_token=token, region=region or None, origin=origin
        )


def _mc_variables(endpoint: str, environ: Mapping[str, str]) -> Iterator[Keys]:
    """`MC_HOST_<alias>=https://ACCESS:SECRET[:TOKEN]@host:port`."""
    for name in sorted(environ):
        if name.startswith(_MC_HOST) and "@" in environ[name]:
            scheme, _, rest = environ[name].partition("://")
            secrets, _, host = rest.rpartition("@")
            parts = [unquote(part) for part in secrets.split(":", 2)]
            if len(parts) >= 2 and all(parts[:2]) and _same_server(f"{scheme}://{host}", endpoint):
                token = parts[2] if len(parts) == 3 else None
                yield Keys(access_key=parts[0], secret_key=parts[1], session_token=token, origin=name)


def _mc_file(endpoint: str, environ: Mapping[str, str]) -> Iterator[Keys]:
    folder = Path(environ["MC_CONFIG_DIR"]) if environ.get("MC_CONFIG_DIR") else _home(environ) / ".mc"
    path = folder / "config.json"
    try:
        aliases: Any = json.loads(path.read_text(encoding="utf-8")).get("aliases", {})
    except OSError:
        return
    except (ValueError, AttributeError) as error:
        raise InputError(f"{path}: not mc's configuration: no JSON object", remedy="mc alias list mends it") from error
    for name, alias in sorted(aliases.items()) if isinstance(aliases, dict) else ():
        pair = (alias.get("accessKey"), alias.get("secretKey")) if isinstance(alias, dict) else (None, None)
        if all(isinstance(half, str) and half for half in pair) and _same_server(str(alias.get("url")), endpoint):
            token = alias.get("sessionToken") or None
            yield Keys(access_key=pair[0], secret_key=pair[1], session_token=token, origin=f"alias {name} of {path}")


def _same_server(url: str, endpoint: str) -> bool:
    ports = {"http": 80, "https": 443}
    try:
        sides = [
            (part.scheme, part.hostname, part.port or ports.get(part.scheme)) for part in map(urlsplit, (url, endpoint))
        ]
    except ValueError:  # a port that is no number
        return False
    return sides[0] == sides[1]


def _aws_profile(name: str, environ: Mapping[str, str], *, origin: str, strict: bool = True) -> Keys:
    sections = _aws_sections(environ)
    where = f"profile {name} of {' and '.join(str(path) for path in _aws_files(environ))}"
    if name not in sections:
        known = f"there are: {', '.join(sorted(sections))}; " if sections else ""
        raise InputError(f"{origin}: no {where}", remedy=f"{known}aws configure --profile {name} makes it")
    values = sections[name]
    names = ("aws_access_key_id", "aws_secret_access_key")
    if not all(values.get(half) for half in names) and strict:
        why = next(
            (f", but {option}, which modelctl does not follow" for option in _ELSEWHERE if values.get(option)), ""
        )
        raise InputError(
            f"{origin}: {where} has no {names[0]} and {names[1]}{why}",
            remedy=f'eval "$(aws configure export-credentials --profile {name} --format env)"',
        )
    return Keys(
        access_key=values.get(names[0]) or None,
        secret_key=values.get(names[1]) or None,
        session_token=values.get("aws_session_token") or None,
        region=values.get("region") or None,
        origin=where,
    )


def _aws_files(environ: Mapping[str, str]) -> tuple[Path, Path]:
    folder = _home(environ) / ".aws"
    return (
        Path(environ.get("AWS_SHARED_CREDENTIALS_FILE") or folder / "credentials"),
        Path(environ.get("AWS_CONFIG_FILE") or folder / "config"),
    )


def _aws_sections(environ: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Every profile by name; the credentials file wins over the other one, as with Amazon's own tools."""
    found: dict[str, dict[str, str]] = {}
    for path, prefix in zip(reversed(_aws_files(environ)), ("profile ", ""), strict=True):
        parser = configparser.RawConfigParser(default_section="\0", strict=False)
        try:
            parser.read_string(path.expanduser().read_text(encoding="utf-8"))
        except OSError:
            continue
        except (configparser.Error, UnicodeDecodeError) as error:  # a parser's message repeats the line
            raise InputError(f"{path}: not a file of profiles", remedy="aws configure list mends it") from error
        for section in parser.sections():
            if section == "default" or section.startswith(prefix):
                found.setdefault(section.removeprefix(prefix).strip(), {}).update(parser.items(section))
    return found


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or "/nonexistent")
