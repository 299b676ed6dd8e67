"""Signing keys, made by ssh-keygen as a person makes them."""

from __future__ import annotations

import subprocess
from pathlib import Path


def ssh_key(path: Path, *, kind: str = "ed25519", passphrase: str = "", pem: bool = False) -> Path:
    """Make a key pair; returns the private half, the public one is beside it as `.pub`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "test@example.org", "-f", str(path)]
    subprocess.run([*command, *(["-m", "PEM"] if pem else [])], check=True, capture_output=True)
    return path


def fingerprint(path: Path) -> str:
    """What `ssh-keygen -l` prints for a key."""
    listed = subprocess.run(["ssh-keygen", "-l", "-f", str(path)], check=True, capture_output=True, text=True)
    return listed.stdout.split()[1]
