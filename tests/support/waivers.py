"""Waiver files for tests."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path


def write_waiver(root: Path, name: str = "one", *, days: int = 30, **changes: object) -> Path:
    """A waiver file in a registry repository; `changes` to its spec, a value of None leaves a key out."""
    expires = datetime.now(UTC).date() + timedelta(days=days)
    spec: dict[str, object] = {
        "rule": "code.remote-code",
        "path": "config.json",
        "digest": "sha256:" + "ab" * 32,
        "reason": "reviewed by hand",
        "owner": "ann@example.org",
        "approver": "bob@example.org",
        "expires": expires.isoformat(),
    } | changes
    spec = {key: value for key, value in spec.items() if value is not None}
    path = root / "policies" / "waivers" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    body = {"apiVersion": "modelctl.dev/v1", "kind": "Waiver", "metadata": {"name": name}, "spec": spec}
    path.write_text(json.dumps(body))
    return path
