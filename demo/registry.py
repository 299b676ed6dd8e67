"""The demo's registry repository: a real git repository with a policy, an environment and one proposed release after
another."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
NAME = "smollm2-135m-instruct"
ENVIRONMENT = "demo"
RULES = ("policies/demo.yaml", f"gitops/environments/{ENVIRONMENT}/environment.yaml")
PLUGIN = PROJECT / "demo" / "engine_plugin"

SETTINGS = """\
# Settings of this registry repository; `modelctl config show` prints each value and where it comes from.
apiVersion: modelctl.dev/v1
kind: Settings
policy: demo
environments: [demo]
store:
  bucket: models
signing:
  key: .modelctl/signing_key
engine:
  # A CPU build of vLLM in an environment of its own; production names its own command here.
  command: {engine} -m vllm.entrypoints.openai.api_server --model {{model}}
  args: [--enforce-eager]
  # PYTHONPATH brings a kernel for 4-bit weights that this build lacks on a processor without AVX-512.
  env: {{VLLM_CPU_KVCACHE_SPACE: "1", VLLM_NO_USAGE_STATS: "1", PYTHONPATH: {plugin}}}
"""

RELEASE = """\
apiVersion: modelctl.dev/v1
kind: ModelRelease
metadata:
  name: {name}
  version: {version}
spec:
  source:
    folder: {folder}
  license: apache-2.0
  quantization:
{quantization}
  serving:
    engine: vllm
    image: vllm/vllm-openai@sha256:{image}
    max_model_len: 2048
    max_num_seqs: 8
    max_num_batched_tokens: 2048
    gpu: {{count: 0}}
  policy: demo
"""

EVERYTHING = """\
    method: gptq
    bits: 4
    group_size: 64
    calibration_samples: 16"""

GATE_AND_UP_ONLY = """\
    method: gptq
    bits: 4
    group_size: 32
    calibration_samples: 16
    exclude: [self_attn, down_proj]   # attention and down projections stay in bfloat16"""

# The digest of the image that a team has chosen stands here; the demo renders manifests and starts no container.
IMAGE = "0" * 63 + "1"


def lay_out(root: Path, engine: Path) -> None:
    """Make the repository; one of an earlier run is kept, and only follows the project's settings and rules."""
    if (root / ".git").is_dir():
        copy_rules(root, engine)
        commit(root, "Follow the demonstration's settings, policy and environment", "modelctl.yaml", *RULES)
        return
    root.mkdir(parents=True, exist_ok=True)
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "config", "user.name", "Demo Person")
    git(root, "config", "user.email", "demo@example.org")
    write(root / ".gitignore", ".modelctl/\n")
    copy_rules(root, engine)
    make_key(root)
    commit(root, "Lay out the registry", "modelctl.yaml", ".gitignore", "policies", "gitops")


def copy_rules(root: Path, engine: Path) -> None:
    """The settings, the policy and the environment of this project, as they are now."""
    write(root / "modelctl.yaml", SETTINGS.format(engine=engine, plugin=PLUGIN))
    for path in RULES:
        write(root / path, (PROJECT / path).read_text(encoding="utf-8"))


def make_key(root: Path) -> None:
    """A signing key of the demo's own, and the file that says who may sign."""
    key = root / ".modelctl" / "signing_key"
    key.parent.mkdir(exist_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-C", "demo", "-f", str(key)], check=True)
    public = key.with_suffix(".pub").read_text(encoding="utf-8").strip()
    write(root / "policies" / "allowed_signers", f"demo@example.org {public}\n")


def propose(root: Path, version: str, quantization: str, model: Path) -> Path:
    """Commit a release file, as a pull request would bring it."""
    path = root / "registry" / NAME / version / "release.yaml"
    folder = os.path.relpath(model, root)
    text = RELEASE.format(name=NAME, version=version, folder=folder, quantization=quantization, image=IMAGE)
    if not path.is_file():
        write(path, text)
        commit(root, f"Propose {NAME}@{version}", str(path))
    return path


def write(path: Path, text: str) -> None:
    """Write a text file and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def commit(root: Path, subject: str, *paths: str) -> None:
    """Commit these paths, if anything in them changed."""
    git(root, "add", "--", *paths)
    if subprocess.run(["git", "-C", str(root), "diff", "--cached", "--quiet"], check=False).returncode:
        git(root, "commit", "--quiet", "-m", subject)


def git(root: Path, *arguments: str) -> None:
    """Run git in the repository."""
    subprocess.run(["git", "-C", str(root), *arguments], check=True)
