from __future__ import annotations

from pathlib import Path

import pytest

from modelctl.serving.engine_log import blames_machine, last_errors, read_tail

REFUSED = """\
(APIServer pid=2) INFO 11-30 14:20:58 [api_utils.py:347] version 0.32.0
(EngineCore pid=21) ERROR 11-30 14:21:08 [core.py:9] Traceback (most recent call last):
(EngineCore pid=21) ERROR 11-30 14:21:08 [core.py:9]   File "x.py", line 1, in f
(EngineCore pid=21) ERROR 11-30 14:21:08 [core.py:9] ValueError: Marlin does not support weight_bits = uint8b128
(EngineCore pid=21) Process EngineCore:
ValueError: Marlin does not support weight_bits = uint8b128
(APIServer pid=2) RuntimeError: Engine core initialization failed. See root cause above.
"""


def log(folder: Path, text: str) -> Path:
    path = folder / "engine.log"
    path.write_text(text)
    return path


def test_the_root_cause_is_shown_once_without_prefixes(tmp_path: Path) -> None:
    assert last_errors(log(tmp_path, REFUSED)) == ("ValueError: Marlin does not support weight_bits = uint8b128",)


def test_the_words_of_a_validation_error_are_shown_and_not_its_headline(tmp_path: Path) -> None:
    text = """\
pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
  Value error, User-specified max_model_len (4096) is greater than the derived max_model_len [type=value_error]
    For further information visit https://errors.pydantic.dev/2/v/value_error
"""
    (line,) = last_errors(log(tmp_path, text))
    assert line.startswith("Value error, User-specified max_model_len (4096)")


def test_without_an_error_the_last_lines_are_shown(tmp_path: Path) -> None:
    assert last_errors(log(tmp_path, "one\n\ntwo\n")) == ("one", "two")
    assert last_errors(tmp_path / "none.log") == ()


def test_control_characters_of_a_log_never_reach_a_terminal(tmp_path: Path) -> None:
    (line,) = last_errors(log(tmp_path, "ValueError: \x1b[2Jgone\r\n"))
    assert line.isprintable()


@pytest.mark.parametrize(
    ("line", "setting"),
    [
        ("api_server.py: error: unrecognized arguments: --nonsense", "engine.args"),
        ("/x/python: No module named vllm", "engine.command"),
        ("ModuleNotFoundError: No module named 'vllm.entrypoints'", "engine.command"),
        ("bwrap: execvp /x/python: No such file or directory", "engine.command"),
        ("RuntimeError: Failed to infer device type, please set VLLM_LOGGING_LEVEL=DEBUG", "engine.args"),
        ("OSError: [Errno 28] No space left on device", "engine.memory_limit_gib"),
    ],
)
def test_a_broken_installation_is_not_the_models_fault(line: str, setting: str) -> None:
    assert blames_machine([line]) == setting


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: Marlin does not support weight_bits = uint8b128",
        "KeyError: 'model.layers.0.mlp.gate.weight'",
        "ValueError: User-specified max_model_len (16384) is greater than the derived max_model_len",
        "ValueError: Model architectures ['NewForCausalLM'] are not supported for now.",
    ],
)
def test_what_the_engine_says_of_the_model_is(line: str) -> None:
    assert blames_machine([line]) is None


def test_a_tail_is_the_end(tmp_path: Path) -> None:
    assert read_tail(log(tmp_path, "abcdef"), 3) == b"def"
