"""A call into a child gives one result, or an error with the child's own last words."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import modelctl
from modelctl import worker
from modelctl.errors import CannotDecideError
from modelctl.isolation import Sandbox

WORKERS = {
    "good": "print('library noise'); progress(advance=2, describe='half'); return {'twice': request['n'] * 2}",
    "failing": "raise ValueError('the tensor is broken')",
    "silent": "import os; os._exit(0)",
}


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A worker module beside the package, run as the child runs any of ours."""
    body = WORKERS[request.param]
    code = (
        f"import sys; sys.path.insert(0, {str(Path(modelctl.__file__).parent.parent)!r})\n"
        "from modelctl.worker import serve\n"
        f"def function(request, progress):\n    {body}\n"
        "serve(function)\n"
    )
    script = tmp_path / "child.py"
    script.write_text(code)
    shim = tmp_path / "python"
    shim.write_text(f"#!/bin/sh\nexec {sys.executable} -I {script}\n")
    shim.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(shim))
    return "child"


def call(module: str, **more: object) -> object:
    limits = {"time_limit_s": 60.0, "memory_limit_bytes": 1 << 30}
    return worker.call(Sandbox("none"), module, {"n": 21}, **limits, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("module", ["good"], indirect=True)
def test_a_result_comes_back_and_noise_does_not(module: str) -> None:
    seen: list[object] = []
    assert call(module, on_progress=seen.append) == {"twice": 42}
    assert seen == [{"advance": 2, "describe": "half"}]


@pytest.mark.parametrize("module", ["failing"], indirect=True)
def test_a_failure_carries_the_childs_words(module: str) -> None:
    with pytest.raises(CannotDecideError, match="the tensor is broken") as caught:
        call(module)
    assert "Traceback" in str(caught.value.remedy)


@pytest.mark.parametrize("module", ["silent"], indirect=True)
def test_no_answer_is_no_result(module: str) -> None:
    with pytest.raises(CannotDecideError, match="no words"):
        call(module)
