"""The names of what a release's folder `registry/<name>/<version>/` holds; they never change.

Apart from those who read and write these files, so that whoever only looks for them in history loads nothing else.
"""

from __future__ import annotations

RECORD_FILE = "record.yaml"
REPORT_FILE = "admission.json"
ATTESTATION_FILE = "attestation.dsse.json"
BOM_FILE = "bom.cdx.json"
CHECKPOINT_FILE = "checkpoint.dsse.json"
RETIRED_FILE = "retired.yaml"
RETIRED_TRAILER = "Model-Retired"
