"""Signing without a key of one's own, by sigstore: an OIDC token says who signs, a certificate for minutes binds that
to a key of the moment, and a public log keeps the signature.

The token is the setting's, else the job's own where its CI offers one (GitHub with `id-token: write`, GitLab, Google
Cloud, Buildkite, CircleCI). It lives for minutes too, so the job's is asked for anew at each signature.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from modelctl.admission.dsse import Envelope
from modelctl.admission.keyless import INSTALL, certificate_key_id, keyless_name
from modelctl.errors import CannotDecideError, InputError

if TYPE_CHECKING:
    from sigstore.dsse import Statement
    from sigstore.models import ClientTrustConfig
    from sigstore.oidc import IdentityToken

    from modelctl.settings import Workspace

TOKEN = "MODELCTL_SIGNING_IDENTITY_TOKEN"  # noqa: S105  # nosec B105 - the name of a variable
_REMEDY = (
    "in a GitHub job: permissions: id-token: write; in GitLab: id_tokens: SIGSTORE_ID_TOKEN: aud: sigstore; by hand: "
    f'export {TOKEN}="$(sigstore get-identity-token)"'
)


@dataclass(frozen=True, kw_only=True)
class KeylessSigner:
    """Signs as whom a token names."""

    identity: str
    issuer: str
    token: str | None
    """The one that was set; None: the job's own, which is asked for at each signature."""
    trust: str | None
    """The text of the client trust configuration of a sigstore; None: the public one."""

    @property
    def key_id(self) -> None:
        """See `dsse.Signer`: each signature has a key of its own."""
        return

    @property
    def name(self) -> str:
        """See `dsse.Signer`."""
        return keyless_name(self.identity, self.issuer)

    @property
    def to_allow(self) -> str:
        """See `dsse.Signer`."""
        return f"add policies/signers/NAME.yaml for identity {self.identity} and issuer {self.issuer}"

    def seal(self, payload: bytes) -> Envelope:
        """See `dsse.Signer`. Raises `CannotDecideError` when sigstore does not sign."""
        from sigstore.sign import SigningContext

        token = identity_token(self.token)
        try:
            context = SigningContext.from_trust_config(_config(self.trust))
            with context.signer(token) as signer:
                text = signer.sign_dsse(_opaque(payload)).to_json()
        except Exception as error:  # its clients raise what only its private modules define
            why = str(error) or repr(error.__cause__ or error)
            raise CannotDecideError(
                f"sigstore did not sign as {self.name}: {why}",
                remedy="see whether Fulcio and Rekor can be reached from here, or sign with a key (signing.key)",
            ) from error
        envelope = Envelope.from_json(
            json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n", origin="the bundle"
        )
        ((_, signature),) = envelope.signatures
        return replace(envelope, signatures=((certificate_key_id(envelope) or "", signature),))


def load_keyless_signer(workspace: Workspace) -> KeylessSigner:
    """Who signs here, as the settings and the token at hand say.

    Raises `InputError` (no token, or none that may sign), `CannotDecideError` (sigstore is not installed, the job's
    token could not be had).
    """
    signing = workspace.settings.signing
    try:
        token = identity_token(signing.identity_token)
    except ImportError as error:
        raise CannotDecideError(f"signing.keyless: {error}", remedy=INSTALL) from error
    trust = None
    if signing.trust_config is not None:
        path = workspace.resolve(signing.trust_config)
        try:
            trust = path.read_text(encoding="utf-8")
            _config(trust)
        except OSError as error:
            raise InputError(f"signing.trust_config: {path}: {error.strerror}") from error
        except ValueError as error:
            raise InputError(
                f"signing.trust_config: {path}: no client trust configuration: {error}",
                remedy="wanted JSON with trustedRoot and signingConfig, as sigstore --trust-config takes it",
            ) from error
    return KeylessSigner(
        identity=token.identity, issuer=token.federated_issuer, token=signing.identity_token, trust=trust
    )


def identity_token(given: str | None) -> IdentityToken:
    """The token that was given, else the job's own. Raises as `load_keyless_signer`, and `ImportError`."""
    from sigstore.oidc import IdentityError, IdentityToken, detect_credential

    try:
        raw = given or detect_credential()
    except IdentityError as error:
        raise CannotDecideError(f"this job's identity token could not be had: {error}", remedy=_REMEDY) from error
    if raw is None:
        raise InputError("signing.keyless: nothing here says who signs", remedy=_REMEDY)
    try:
        return IdentityToken(raw)
    except IdentityError as error:
        whose = TOKEN if given else "this job's identity token"
        why = f"{error} ({error.__cause__})" if error.__cause__ else str(error)
        raise InputError(f"{whose}: {why}; a token lives for minutes", remedy=_REMEDY) from error


def _config(trust: str | None) -> ClientTrustConfig:
    from sigstore.models import ClientTrustConfig

    return ClientTrustConfig.production() if trust is None else ClientTrustConfig.from_json(trust)


def _opaque(payload: bytes) -> Statement:
    """The statement as the bytes that it is: sigstore's class takes no subject whose digest is a git commit's."""
    from sigstore.dsse import Statement

    class Opaque(Statement):
        def __init__(self, contents: bytes) -> None:
            self._contents = contents

    return Opaque(payload)
