"""What a policy demands of each check: one class for each section below `checks`, whose defaults are the production
figures. Apart from the checks themselves, so that a policy is read without what they load.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from modelctl.accuracy.precision import Demand
from modelctl.checks.base import CheckLimits
from modelctl.checks.stress.limits import LengthLimits, LoadLimits
from modelctl.model.files import WeightFormat
from modelctl.model.release import Calibration
from modelctl.scan.bandit_run import Level
from modelctl.scan.clamd import TRUSTED_SCAN_S


class IntegrityLimits(CheckLimits):
    """What integrity demands."""

    require_upstream: bool = False
    """Without an upstream listing to compare with, do not decide."""
    formats: tuple[WeightFormat, ...] = ("safetensors", "gguf")
    """Weight formats that may be in the repository. `pytorch` (`.bin`, `.pt`) is a pickle: here nothing but its hash is
    looked at, and the malware check decides what it may run."""
    dtypes: tuple[str, ...] = ()
    """Types, as safetensors names them, that matrices may have; none named allows all that config.json declares."""
    numbers: bool = True
    """Read every weight: NaN, Inf, all zero, constant. Without it a report says that they were not read."""
    may_be_constant: tuple[str, ...] = ()
    """Shell patterns of the names of tensors that may be all zero or constant."""
    require_pinned: bool = False
    """Whether a Hub repository must be named by a full commit, and not by a branch or a tag."""
    owners: tuple[str, ...] = ()
    """Owners whose Hub repositories may be a source or an upstream; none named allows all."""
    max_files: Annotated[int, Field(ge=1)] = 10_000
    """More files than this are refused."""
    max_bytes: Annotated[int, Field(ge=1)] = 4 << 40
    """More bytes than this, over all files, are refused."""


class MalwareLimits(CheckLimits):
    """The policy's section `malware`."""

    max_database_age_days: Annotated[int, Field(ge=0)] = 7
    """An older signature database decides nothing."""
    allow_no_database_version: bool = False
    """Accept a clamd without the daily database (test signatures); every report then says so."""
    window_mib: Annotated[int, Field(ge=4, le=2047)] = 512
    """Longest stream for clamd; longer files are scanned in windows of this size that overlap by 1 MiB."""
    trusted_scan_s: Annotated[float, Field(gt=0)] = TRUSTED_SCAN_S
    """How long clamd may take for a verdict after the end of a window, in seconds; later ones are not waited for. To be
    kept under clamd's MaxScanTime."""
    pickles: Literal["harmless", "refuse"] = "harmless"
    """Whether pickles that import nothing but names known to be harmless may pass."""
    max_depth: Annotated[int, Field(ge=1, le=20)] = 5
    """Archives inside archives."""
    max_members: Annotated[int, Field(ge=1)] = 100_000
    """Files that one archive may hold, over all levels."""
    max_unpacked_gib: Annotated[int, Field(ge=1)] = 256
    """What one file may unpack to, over all levels."""
    max_ratio: Annotated[int, Field(ge=1)] = 20
    """Bytes unpacked for each byte packed, beyond the 256 MiB that any file may unpack to."""


class CodeLimits(CheckLimits):
    """The policy's section `code`."""

    severity: Level = "medium"
    """bandit's findings are refused from this severity on, when they also reach `confidence`."""
    confidence: Level = "medium"
    """bandit's findings are refused from this confidence on."""
    allow_own_code: bool = False
    """Accept `auto_map` and the like that point to a file of this repository; its Python is examined all the same."""
    template_time_limit_s: Annotated[float, Field(gt=0, le=600)] = 10.0
    """Seconds for compiling one chat template and rendering a few short conversations with it."""
    template_memory_limit_mib: Annotated[int, Field(ge=16, le=65536)] = 512
    """Memory that the same may take beyond what the child has already."""


class TokenizerLimits(CheckLimits):
    """What a release's tokenizer must hold to."""

    time_limit_s: Annotated[int, Field(ge=1)] = 600
    """Seconds after which the check ends without a decision."""
    agreeing_roles: tuple[Literal["bos", "eos", "pad"], ...] = ("bos", "eos", "pad")
    """Special tokens on which the tokenizer and config.json or generation_config.json must agree."""
    round_trip: bool = True
    """Whether text that does not come back from its ids is a finding, or only measured."""
    max_lossy_texts: Annotated[int, Field(ge=0)] = 0
    """Texts of the corpus that a vocabulary on bytes may lose, beside those with bytes that it has no token for."""
    max_differing_texts: Annotated[int, Field(ge=0)] = 5
    """Texts of the corpus of which two forms (tokenizer.json, transformers, sentencepiece) may make other ids.

    Not 0, since transformers 5 builds some classes anew: Llama 2 as published differs in the spaces that begin a text,
    SmolLM2 in digits such as ½. The report warns of each."""
    more_text_mib: Annotated[int, Field(ge=0, le=1024)] = 0
    """Text that is encoded and decoded beside the corpus, made from it in new orders."""
    chat_template_required: bool = False
    """Whether a repository without a chat template is refused."""
    template_time_limit_s: Annotated[float, Field(gt=0, le=60)] = 5
    """For compiling one chat template and rendering a few short messages; real ones take milliseconds."""
    template_memory_limit_mib: Annotated[int, Field(ge=16, le=4096)] = 256
    """Memory that the same may take."""
    load_time_limit_s: Annotated[float, Field(gt=0)] = 180
    """For loading the tokenizer and encoding and decoding the corpus."""
    load_memory_limit_mib: Annotated[int, Field(ge=256)] = 8192
    """Address space beyond that of the interpreter."""


class QuantizationLimits(CheckLimits):
    """What quantization demands, and how it is measured."""

    max_drop_points: Annotated[float, Field(gt=0, le=100)] = 1.5
    """Percentage points of accuracy that may be lost, at the upper end of the interval."""
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    """Of the two-sided interval."""
    tasks: Annotated[tuple[str, ...], Field(min_length=1)] = ("mmlu",)
    """Multiple-choice tasks of lm-eval, or `modelctl_easy`, which ships with the program and suits models under a
    billion weights."""
    task_folder: Path | None = None
    """A folder of lm-eval task files and their data, below the registry repository. Where it is named, tasks are looked
    up there and among those that ship with the program, and nothing is fetched."""
    questions: Annotated[int, Field(ge=100)] = 1400
    """Documents to answer, drawn at random by subject; all of them when the tasks hold fewer."""
    max_bits_per_byte_rise: Annotated[float, Field(gt=0)] | None = None
    """How many more bits the served model may need for a byte of the shipped texts. None: measured, and not judged."""
    fewshot: Annotated[int, Field(ge=0, le=32)] = 0
    """Solved examples before each question."""
    dtype: Demand = "auto"
    """Of both models' numbers while they answer. `auto`: the model's own half type (bfloat16 or float16) where a GPU or
    the processor multiplies in it, else float32, which holds the same values."""
    batch_size: Annotated[int, Field(ge=1, le=1024)] = 32
    """Answers that are computed at once; it moves the last digits."""
    seed: int = 0
    """Of the random choices; the same seed makes the same ones."""
    time_limit_s: Annotated[int, Field(ge=1)] = 14400
    """For the quantisation, and again for each of the two evaluations."""
    memory_limit_gib: Annotated[float, Field(gt=0)] = 64
    """What a child and all that it starts may use."""
    calibration: Calibration | None = None
    """The text that quantising looks at, where the release names none. None: the sample that ships with modelctl."""


class LongContextLimits(LengthLimits):
    """Limits of the check: those of a walk over lengths, with production's numbers."""


class ConcurrencyLimits(LoadLimits):
    """Limits of the check: those of the load, with production's numbers."""
