"""`modelctl gate` over 50 signed evidence folders, and a report of 10,000 findings in each format.

The whole command is held against what it promises, and against a Python that only imports the two libraries it can't do
without: that ratio says the same on a busy machine.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from comparison import Row, medians

ROOT = Path(__file__).resolve().parent.parent
MODELCTL = Path(sys.executable).with_name("modelctl")
FOLDERS, GATE_S = 50, 1.0
IMPORTS = "import pydantic.main, rich.console, rich.table"
AT_MOST_IMPORTS = 5.0
FINDINGS, RENDER_S = 10_000, 2.0
RELEASE = """\
apiVersion: modelctl.dev/v1
kind: ModelRelease
metadata: {name: tiny, version: 1.0.0}
spec: {source: {folder: model}}
"""


def rows(folder: Path, *, rounds: int) -> list[Row]:
    """The gate in the process and as a whole command, whose start is most of it; the formats in the process. The first
    run of each, which imports, does not count."""
    root = folder / "registry"
    folders = _evidence(root)

    def gate(some: Sequence[Path]) -> None:
        command: list[str | Path] = [MODELCTL, "gate", *some, "--release", "tiny@1.0.0", "--policy", "demo"]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        if done.returncode != 1:
            raise SystemExit(f"bench: modelctl gate: {done.returncode}\n{done.stdout}{done.stderr}")

    calls = {
        "command": lambda: gate(folders),
        "one": lambda: gate(folders[:1]),
        "imports": lambda: subprocess.run([sys.executable, "-c", IMPORTS], check=True),
        "process": lambda: _gate(root, folders),
    }
    seconds = medians(calls, rounds=rounds)
    parameters = {"rounds": rounds, "folders": FOLDERS}
    return [
        Row(figure=f"gate, {FOLDERS} folders", ours=seconds["process"], beside="what was promised", other=GATE_S,
            at_most=1.0, parameters=parameters),
        Row(figure=f"modelctl gate, {FOLDERS} folders", ours=seconds["command"], beside="what was promised",
            other=GATE_S, parameters=parameters),
        Row(figure=f"modelctl gate, {FOLDERS} folders", ours=seconds["command"], beside="python, pydantic and rich",
            other=seconds["imports"], at_most=AT_MOST_IMPORTS, parameters=parameters),
        Row(figure=f"modelctl gate, {FOLDERS} folders", ours=seconds["command"], beside="the same over one folder",
            other=seconds["one"], parameters=parameters),
        *_formats(rounds),
    ]  # fmt: skip


def _gate(root: Path, folders: Sequence[Path]) -> None:
    from modelctl.admission.gate import GateRequest, gate
    from modelctl.settings import load_workspace

    request = GateRequest(
        folders=tuple(folders), workspace=load_workspace(root, environ={}), release="tiny@1.0.0", policy="demo"
    )
    gate(request)


def _evidence(root: Path) -> list[Path]:
    """Folders of seven checks in turn, signed: what is there twice is refused after all was read and verified."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    from tests.support.evidence import CPU, GPU, checked, leave, runner_report
    from tests.support.keys import ssh_key

    from modelctl.admission.evidence_signature import SIGNATURE_FILE, sign_evidence
    from modelctl.admission.keys import KeySigner, load_signing_key
    from modelctl.admission.policy import load_policy
    from modelctl.admission.report import Report

    registry = root / "registry" / "tiny" / "1.0.0"
    registry.mkdir(parents=True)
    (registry / "release.yaml").write_text(RELEASE, encoding="utf-8")
    (root / "modelctl.yaml").write_text("{}\n", encoding="utf-8")
    (root / "policies").mkdir()
    policy = load_policy("demo", root)
    signer = KeySigner(load_signing_key(ssh_key(root / "key", kind="ecdsa")))
    public = (root / "key.pub").read_text(encoding="utf-8")
    (root / "policies" / "allowed_signers").write_text(f"runner {public}", encoding="utf-8")
    sha256 = hashlib.sha256(RELEASE.encode()).hexdigest()
    folders = []
    for number in range(FOLDERS):
        check = checked([*CPU, *GPU][number % 7], policy)
        at = leave(root / f"runner-{number}", runner_report([check], policy, release_sha256=sha256))
        report = Report.from_json((at / "report.json").read_text(encoding="utf-8"), origin=str(at))
        (at / SIGNATURE_FILE).write_text(sign_evidence(report, signer), encoding="utf-8")
        folders.append(at)
    return folders


def _formats(rounds: int) -> list[Row]:
    from tests.admission.formats.reports import large_report

    from modelctl.admission.formats import FORMATS, render

    report = large_report(FINDINGS)
    calls = {kind: (lambda kind=kind: render(report, kind)) for kind in FORMATS}
    times = medians(calls, rounds=rounds)
    return [
        Row(figure=f"{FINDINGS} findings as {kind}", ours=seconds, beside="what was promised", other=RENDER_S,
            at_most=1.0, parameters={"rounds": rounds, "findings": FINDINGS})
        for kind, seconds in times.items()
    ]  # fmt: skip
