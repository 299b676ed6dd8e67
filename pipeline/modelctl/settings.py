"""Settings of a registry repository: `modelctl.yaml`, then `MODELCTL_…` variables, then command options.

Every value knows where it came from (`modelctl config show`). Credentials never come from the file, since it lives
in git.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from modelctl.documents import Document, nearest, parse_yaml, read_text, validate
from modelctl.errors import InputError
from modelctl.files import SETTINGS_FILE, find_root

PREFIX = "MODELCTL_"
SECRETS = (
    "store.access_key", "store.secret_key", "store.session_token", "engine.api_key", "signing.passphrase",
    "signing.identity_token",
)  # fmt: skip
MASK = "********"


class Store(Document):
    """The object store that holds published bytes."""

    endpoint: str | None = None
    """`http(s)://host:port` of MinIO or another S3 server."""
    bucket: str = "models"
    region: str | None = None
    addressing: Literal["auto", "path", "virtual-host"] = "auto"
    """Where a request names the bucket: in its path, or in its host's name; auto: the latter for Amazon's servers."""
    ca_file: Path | None = None
    profile: str | None = None
    """A profile of AWS's shared files that holds the keys."""
    access_key: str | None = None
    secret_key: str | None = None
    session_token: str | None = None


class Engine(Document):
    """How an engine is started for the stress checks."""

    command: str | None = None
    """A command line; `{model}` stands for the model's folder, else it is appended, as `vllm serve` wants it."""
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    start_timeout_s: Annotated[int, Field(ge=5)] = 1200
    memory_limit_gib: Annotated[float, Field(gt=0)] = 512
    endpoint: str | None = None
    """A running engine to drive instead: `http(s)://host:port`."""
    api_key: str | None = None
    """The key that a running engine asks for, sent as a bearer token."""


class Signing(Document):
    """What signs attestations."""

    key: Path | None = None
    """An Ed25519 or ECDSA private key: OpenSSH or PEM."""
    model_key: Path | None = None
    """An ECDSA private key for the signature that model-signing verifies, where `key` is no ECDSA key."""
    passphrase: str | None = None
    """Of the keys' files."""
    allowed: Path | None = None
    """Who may sign, where that is not `policies/allowed_signers` of the registry repository."""
    keyless: bool = False
    """Sign by sigstore as whom an OIDC token names, not with `key`."""
    trust_config: Path | None = None
    """The client trust configuration of a sigstore of your own, to sign by; none: the public one."""
    identity_token: str | None = None
    """The OIDC token to sign by, where it is not the job's own; it lives for minutes."""


class Settings(Document):
    """All settings."""

    api_version: Annotated[Literal["modelctl.dev/v1"], Field(alias="apiVersion")] = "modelctl.dev/v1"
    kind: Literal["Settings"] = "Settings"
    policy: str = "production"
    """Default policy: a name in `policies/` or a file."""
    clamd: str | None = None
    """A clamd: a socket's path or `host:port`. None: a private one is started when the program is installed."""
    state_dir: Path = Path(".modelctl")
    """Downloads, staging, evidence and services, relative to the registry repository."""
    environments: tuple[str, ...] = ("prod",)
    store: Store = Store()
    engine: Engine = Engine()
    signing: Signing = Signing()


@dataclass(frozen=True, kw_only=True)
class Origin:
    """One leaf setting: dotted key, value and where it came from."""

    key: str
    value: object
    origin: str

    @property
    def shown(self) -> object:
        """The value, masked when it is a secret."""
        return MASK if self.key in SECRETS and self.value is not None else self.value

    @property
    def variable(self) -> str:
        """The environment variable that overrides it."""
        return _variable(self.key)


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """A registry repository's root, its settings and where each came from."""

    root: Path
    settings: Settings
    origins: tuple[Origin, ...]

    @property
    def state(self) -> Path:
        """The folder for everything that is not kept in git. It may not be there yet."""
        return self.root / self.settings.state_dir

    def make_state(self) -> Path:
        """The state folder, made if need be; it keeps itself out of git."""
        self.state.mkdir(parents=True, exist_ok=True)
        ignore = self.state / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
        return self.state

    def resolve(self, path: Path) -> Path:
        """A path of a setting: relative ones start at the root."""
        return (self.root / path.expanduser()).resolve()

    def only_environment(self) -> str:
        """The one environment that the settings name. Raises `InputError` when they name several, or none."""
        if len(self.settings.environments) != 1:
            known = ", ".join(self.settings.environments)
            raise InputError(
                "which environment?",
                remedy=f"add --env with one of: {known}" if known else f"name them in {SETTINGS_FILE}, or add --env",
            )
        return self.settings.environments[0]


def load_workspace(
    start: Path, *, environ: Mapping[str, str] = os.environ, options: Mapping[str, object] | None = None
) -> Workspace:
    """Read the settings that hold at `start`. `options` maps dotted keys to values given on the command line.

    Raises `InputError` for an unknown key, a bad value or a secret in the file.
    """
    root = find_root(start)
    path = root / SETTINGS_FILE
    origins: dict[str, str] = {}
    values: dict[str, Any] = {}
    if path.is_file():
        values = parse_yaml(read_text(path), origin=str(path)) or {}
        validate(values, Settings, origin=str(path))
        for key in SECRETS:
            if _get(values, key) is not None:
                variable = _variable(key)
                raise InputError(f"{path}: '{key}' is a secret and this file is in git", remedy=f"export {variable}=…")
        origins = {key: SETTINGS_FILE for key in _leaves(Settings) if _get(values, key) is not None}
    for key, value in _from_environment(environ).items():
        _set(values, key, value)
        origins[key] = _variable(key)
    for key, option in (options or {}).items():
        if option is not None:
            _set(values, key, option)
            origins[key] = "option"
    origin = "settings (" + ", ".join(sorted({SETTINGS_FILE, *origins.values()})) + ")"
    settings = validate(values, Settings, origin=origin)
    shown = tuple(
        Origin(key=key, value=_get(settings.model_dump(), key), origin=origins.get(key, "default"))
        for key in _leaves(Settings)
        if key not in ("apiVersion", "kind")
    )
    return Workspace(root=root, settings=settings, origins=shown)


def _from_environment(environ: Mapping[str, str]) -> dict[str, object]:
    known = {_variable(key): key for key in _leaves(Settings) if key not in ("apiVersion", "kind")}
    found: dict[str, object] = {}
    for name, value in environ.items():
        if not name.startswith(PREFIX):
            continue
        if name not in known:
            close = nearest(name, list(known))
            raise InputError(
                f"unknown variable {name}" + (f", did you mean {close}?" if close else ""),
                remedy="modelctl config show lists every setting",
            )
        structured = known[name] in ("engine.args", "engine.env", "environments")
        found[known[name]] = parse_yaml(value, origin=name) if structured else value
    return found


def _variable(key: str) -> str:
    return PREFIX + key.replace(".", "_").upper()


def _leaves(kind: type[Document], prefix: str = "") -> Iterator[str]:
    for name, field in kind.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Document):
            yield from _leaves(field.annotation, f"{prefix}{name}.")
        else:
            yield prefix + (field.alias or name)


def _get(values: Mapping[str, Any], key: str) -> object:
    current: Any = values
    for part in key.split("."):
        if not isinstance(current, dict):
            return None
        current = current.get(part)
    return current


def _set(values: dict[str, Any], key: str, value: object) -> None:
    *parents, last = key.split(".")
    current = values
    for part in parents:
        current = current.setdefault(part, {})
    current[last] = value
