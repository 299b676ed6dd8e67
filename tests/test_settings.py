"""Settings come from the file, then variables, then options, and each knows where it came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelctl.errors import InputError
from modelctl.settings import MASK, load_workspace


def origin_of(workspace_origins: object, key: str) -> str:
    return next(item.origin for item in workspace_origins if item.key == key)  # type: ignore[attr-defined]


def test_the_later_source_wins(tmp_path: Path) -> None:
    (tmp_path / "modelctl.yaml").write_text("policy: a\nstore: {bucket: b, endpoint: 'http://127.0.0.1:1'}\n")
    workspace = load_workspace(
        tmp_path, environ={"MODELCTL_STORE_BUCKET": "from-env"}, options={"policy": "from-option", "clamd": None}
    )
    assert workspace.settings.policy == "from-option"
    assert workspace.settings.store.bucket == "from-env"
    assert workspace.settings.store.endpoint == "http://127.0.0.1:1"
    assert [origin_of(workspace.origins, key) for key in ("policy", "store.bucket", "store.endpoint", "clamd")] == [
        "option",
        "MODELCTL_STORE_BUCKET",
        "modelctl.yaml",
        "default",
    ]


def test_the_root_is_found_from_below(tmp_path: Path) -> None:
    (tmp_path / "modelctl.yaml").write_text("policy: a\n")
    below = tmp_path / "registry" / "x"
    below.mkdir(parents=True)
    assert load_workspace(below, environ={}).root == tmp_path.resolve()


def test_structured_variables_are_yaml(tmp_path: Path) -> None:
    workspace = load_workspace(tmp_path, environ={"MODELCTL_ENGINE_ARGS": "[--enforce-eager]"})
    assert workspace.settings.engine.args == ("--enforce-eager",)


@pytest.mark.parametrize("key", ["store.secret_key", "engine.api_key"])
def test_a_secret_is_masked_and_refused_in_the_file(tmp_path: Path, key: str) -> None:
    section, name = key.split(".")
    variable = f"MODELCTL_{section}_{name}".upper()
    workspace = load_workspace(tmp_path, environ={variable: "hush-hush"})
    secret = next(item for item in workspace.origins if item.key == key)
    assert secret.shown == MASK
    (tmp_path / "modelctl.yaml").write_text(f"{section}: {{{name}: hush-hush}}\n")
    with pytest.raises(InputError, match="is a secret") as caught:
        load_workspace(tmp_path, environ={})
    assert "hush" not in caught.value.message
    assert caught.value.remedy == f"export {variable}=…"


@pytest.mark.parametrize(
    ("text", "environ", "words"),
    [
        ("polcy: a\n", {}, "did you mean 'policy'"),
        ("", {"MODELCTL_POLCY": "a"}, "did you mean MODELCTL_POLICY"),
        ("engine: {start_timeout_s: soon}\n", {}, "engine.start_timeout_s"),
        ("", {"MODELCTL_ENGINE_START_TIMEOUT_S": "1"}, "MODELCTL_ENGINE_START_TIMEOUT_S"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, environ: dict[str, str], words: str) -> None:
    if text:
        (tmp_path / "modelctl.yaml").write_text(text)
    with pytest.raises(InputError, match=words):
        load_workspace(tmp_path, environ=environ)


def test_the_state_folder_keeps_itself_out_of_git(tmp_path: Path) -> None:
    workspace = load_workspace(tmp_path, environ={})
    assert not workspace.state.exists()
    state = workspace.make_state()
    assert state == workspace.state
    assert (state / ".gitignore").read_text() == "*\n"
