"""Where a registry repository says who may sign; apart from the readers, so that history is searched without them."""

from __future__ import annotations

from pathlib import Path

SIGNERS_FILE = Path("policies", "allowed_signers")
SIGNERS_FOLDER = "policies/signers"
