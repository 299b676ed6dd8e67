"""The words by which commits, manifests and their readers know each other; they never change."""

from __future__ import annotations

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
ROLLOUT_FILE = "rollout.yaml"
"""The file of a rendered folder that names what is served."""
