"""The main job on a real model, from a proposal to a canary: what `make demo` runs.

Every step is a `modelctl` command that a person could type in the demo's registry repository; this script types
them, checks their exit codes and ends what was started, also after Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import build_model
import registry

CACHE = Path(os.environ.get("DEMO_DIR", registry.PROJECT / ".cache"))
MODEL = CACHE / "models" / "SmolLM2-135M-Instruct"
ROOT = CACHE / "demo"
ENGINE = registry.PROJECT / ".venv-engine" / "bin" / "python"
MODELCTL = Path(sys.executable).with_name("modelctl")
REFUSED, HELD = f"{registry.NAME}@1.0.0", f"{registry.NAME}@1.1.0"


class StepError(Exception):
    """A step ended with another exit code than the one it must have."""


def say(text: str) -> None:
    """A heading of the demo."""
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n== {text}", flush=True)


def modelctl(*arguments: str, wanted: int = 0) -> None:
    """Type one command, and insist on its exit code."""
    print(f"$ modelctl {' '.join(arguments)}", flush=True)
    process = subprocess.Popen([str(MODELCTL), *arguments], cwd=ROOT)
    try:
        code = process.wait()
    except KeyboardInterrupt:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=30)  # a terminal's Ctrl-C reached the command too; it ends what it started
        raise
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    if code in (130, -signal.SIGINT):
        raise KeyboardInterrupt
    if code != wanted:
        raise StepError(f"modelctl {arguments[0]} ended with {code}, and {wanted} was wanted")


def steps() -> None:
    """The demo from end to end."""
    say("1. A model folder and a registry repository")
    build_model.build(MODEL)
    registry.lay_out(ROOT, ENGINE)
    print(f"model:    {MODEL}\nregistry: {ROOT} (a git repository)")

    say("2. The embedded services, on loopback")
    modelctl("services", "up")

    say("3. GPTQ with 4 bits everywhere is proposed: the accuracy check refuses it")
    registry.propose(ROOT, "1.0.0", registry.EVERYTHING, MODEL)
    modelctl("admit", REFUSED, wanted=1)

    say("4. The remedy that the refusal names is proposed: admitted")
    registry.propose(ROOT, "1.1.0", registry.GATE_AND_UP_ONLY, MODEL)
    modelctl("admit", HELD)

    say("5. Published once, to the S3 server, recorded and tagged in git")
    modelctl("publish", HELD)

    say("6. The canary's manifests, as a commit for Argo CD")
    modelctl("rollout", HELD, "--env", registry.ENVIRONMENT)

    say("7. Who let what in: the git history")
    modelctl("audit")


def main() -> int:
    """Run the demo; the services are ended in any case."""
    began = time.monotonic()
    if not ENGINE.exists():
        print("the engine's environment is missing; run: make setup", file=sys.stderr)
        return 2
    if "--fresh" in sys.argv:
        shutil.rmtree(ROOT, ignore_errors=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        steps()
    except KeyboardInterrupt:
        print("\ninterrupted; run make demo again to go on from here", file=sys.stderr)
        return 130
    except StepError as error:
        print(f"\nthe demo stopped: {error}", file=sys.stderr)
        return 1
    finally:
        if ROOT.is_dir():
            subprocess.run([str(MODELCTL), "services", "down"], cwd=ROOT, check=False)
    say(f"Done in {time.monotonic() - began:.0f} s. Where to look, and what to try next")
    print(
        f"""\
cd {ROOT}
git log --stat                                   what happened, as commits
less .modelctl/evidence/{registry.NAME}/1.0.0/report.json   why 1.0.0 was refused
ls registry/{registry.NAME}/1.1.0 gitops/environments/{registry.ENVIRONMENT}/{registry.NAME}
{MODELCTL} admit {HELD} --check tokenizer        one check alone
{MODELCTL} doctor                                what this machine has and lacks"""
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
