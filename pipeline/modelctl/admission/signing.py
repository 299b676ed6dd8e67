"""What signs here, as the settings say: a key's file, or sigstore without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelctl.admission.keys import KeySigner, is_ecdsa, key_kind, load_signing_key, new_key
from modelctl.errors import InputError

if TYPE_CHECKING:
    from modelctl.admission.dsse import Signer
    from modelctl.settings import Workspace


def load_signer(workspace: Workspace) -> Signer:
    """What signs attestations and evidence. Raises as `load_signing_key`, and as `load_keyless_signer`."""
    signing = workspace.settings.signing
    if signing.keyless:
        from modelctl.admission.keyless_signing import load_keyless_signer

        return load_keyless_signer(workspace)
    path = workspace.resolve(signing.key) if signing.key else None
    return KeySigner(load_signing_key(path, signing.passphrase))


def load_model_signer(workspace: Workspace) -> Signer | None:
    """What signs the model for other tools: `signing.model_key`, else what signs all, where those tools take it.

    None where that is an Ed25519 key. Raises `InputError` for a `signing.model_key` that can't be used.
    """
    signing = workspace.settings.signing
    if signing.model_key is None:
        found = load_signer(workspace)
        return None if isinstance(found, KeySigner) and not is_ecdsa(found.public) else found
    path = workspace.resolve(signing.model_key)
    signer = KeySigner(load_signing_key(path, signing.passphrase, setting="signing.model_key"))
    if not is_ecdsa(signer.public):
        raise InputError(
            f"signing.model_key: {path} is {key_kind(signer.public)}, wanted ECDSA", remedy=new_key("model_key")
        )
    return signer
