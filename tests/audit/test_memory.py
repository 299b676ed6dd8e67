"""What is remembered, and that a memory can't hide anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from modelctl.audit import memory as memories
from modelctl.audit.history import read_history
from modelctl.audit.memory import Memory
from modelctl.audit.verify import verify
from modelctl.git import Git
from tests.support.history import Registry, a_served_registry


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    registry = a_served_registry(tmp_path_factory.mktemp("served") / "registry")
    assert verify(registry.root, remember=True).recalled == 0
    return registry


@pytest.fixture
def registry(served: Registry, tmp_path: Path) -> Registry:
    return served.copy(tmp_path / "registry")


def kept(registry: Registry) -> Path:
    return registry.root / ".git" / "modelctl" / "audit.json"


def test_what_agreed_is_not_looked_at_again(registry: Registry) -> None:
    result = verify(registry.root, remember=True)
    assert (result.recalled, result.signatures, result.exit_code) == (1, 1, 0)
    registry.propose("other")
    registry.publish("other", content="other")
    result = verify(registry.root, remember=True)
    assert (result.recalled, result.signatures, result.releases) == (1, 2, 2)
    assert verify(registry.root).recalled == 0


def test_tampering_is_found_whatever_is_remembered(registry: Registry) -> None:
    registry.edit(registry.folder() / "record.yaml", "description: folder model", "description: folder modem")
    registry.commit("Fix a typo")
    for _ in range(2):
        result = verify(registry.root, remember=True)
        assert {item.rule for item in result.violations} == {"audit.record-changed"}
        assert result.recalled == 0


def test_a_moved_tag_and_other_signers_are_looked_at_anew(registry: Registry) -> None:
    registry.git.run("tag", "--force", "--annotate", "--message", "nothing", "tiny@v1.0.0", "tiny@v1.0.0^{}")
    assert {item.rule for item in verify(registry.root, remember=True).violations} == {"audit.tag-digest"}


def test_another_program_believes_nothing(registry: Registry) -> None:
    body = json.loads(kept(registry).read_text(encoding="utf-8"))
    kept(registry).write_text(json.dumps({**body, "program": "other"}), encoding="utf-8")
    assert verify(registry.root, remember=True).recalled == 0
    kept(registry).write_text("{", encoding="utf-8")
    assert verify(registry.root, remember=True).recalled == 0


def test_no_branch_can_bring_a_memory_along(registry: Registry) -> None:
    """It lies in git's own folder, where nothing that is checked out ever comes to lie."""
    path = kept(registry)
    assert path.is_file()
    assert ".git/" in path.as_posix()
    assert not registry.git.tracks(path)
    assert not (registry.root / ".modelctl" / "audit.json").exists()


def test_a_shallow_clone_remembers_nothing(registry: Registry, tmp_path: Path) -> None:
    Git(tmp_path).run("clone", "--quiet", "--depth", "1", f"file://{registry.root}", "clone")
    assert verify(tmp_path / "clone", remember=True).exit_code != 0
    assert not (tmp_path / "clone" / ".git" / "modelctl").exists()


def test_a_folder_that_can_not_be_written_is_told(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(memories, "write_whole", full)
    kept(registry).unlink()
    result = verify(registry.root, remember=True)
    assert result.exit_code == 0
    assert "starts afresh" in result.notes[0]


def test_what_is_not_used_is_forgotten_after_a_look_at_everything(registry: Registry) -> None:
    memory = Memory.of(read_history(registry.root))
    memory.keep("stale")
    assert memory.save(whole=False)
    assert "stale" in json.loads(kept(registry).read_text(encoding="utf-8"))["known"]
    verify(registry.root, remember=True)
    assert "stale" not in json.loads(kept(registry).read_text(encoding="utf-8"))["known"]
