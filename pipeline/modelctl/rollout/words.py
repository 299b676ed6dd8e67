"""The words by which commits, manifests and their readers know each other; they never change."""

from __future__ import annotations

from pathlib import Path

RELEASE_ANNOTATION = "modelctl.dev/release"
DIGEST_ANNOTATION = "modelctl.dev/tree-digest"
PROMOTED_ANNOTATION = "modelctl.dev/promoted"
"""On the Rollout alone: the release that a person called stable."""
RELEASE_TRAILER = "Model-Release"
DIGEST_TRAILER = "Model-Digest"
ENVIRONMENT_TRAILER = "Environment"
PROMOTED_TRAILER = "Promoted"
ABORTED_TRAILER = "Aborted"
ROLLED_BACK_TRAILER = "Rolled-Back"
REASON_TRAILER = "Reason"
PUBLISHED_FILE = Path("policies/cluster/published.yaml")
"""The releases that the cluster's admission policy lets in."""
ROLLOUT_FILE = "rollout.yaml"
"""The file of a rendered folder that names what is served."""
