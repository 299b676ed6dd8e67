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


def openssl_key(path: Path, *, kind: str, passphrase: str | None = None) -> Path:
    """Make a PEM key (PKCS 8) of a kind, `ed25519` or a curve's name; the public half is beside it as `.pub`."""
    wanted = ["ed25519"] if kind == "ed25519" else ["EC", "-pkeyopt", f"ec_paramgen_curve:{kind}"]
    locked = ["-aes256", "-pass", f"pass:{passphrase}"] if passphrase else []
    command = ["openssl", "genpkey", "-algorithm", *wanted, *locked, "-out", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    opened = ["-passin", f"pass:{passphrase}"] if passphrase else []
    public = ["openssl", "pkey", "-in", str(path), *opened, "-pubout", "-out", str(path.with_suffix(".pub"))]
    subprocess.run(public, check=True, capture_output=True)
    return path
