"""`modelctl list`, `show` and `diff`: the registry as a person and a program read it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from modelctl.services.process import Running
from tests.registry.conftest import a_store
from tests.support.bucket import place
from tests.support.command import modelctl
from tests.support.history import Registry, a_served_registry
from tests.support.s3_servers import ACCESS_KEY, SECRET_KEY


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    """Read by every test here, and changed by none."""
    registry = a_served_registry(tmp_path_factory.mktemp("listing") / "registry")
    registry.succeed(1, content="other")
    registry.propose(version="2.0.0")
    return registry


def test_the_registry_at_a_glance(registry: Registry) -> None:
    done = modelctl("list", cwd=registry.root)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["release", "state", "size", "licence", "admitted", "environments"]
    assert lines[1] == ["tiny@1.0.0", "published", "7", "B", "2026-01-02", "prod"]
    assert lines[2] == ["tiny@1.1.0", "published", "5", "B", "2026-01-02", "prod", "(canary)"]
    assert lines[3] == ["tiny@2.0.0", "proposed"]


def test_json_for_programs(registry: Registry) -> None:
    rows = json.loads(modelctl("list", "tiny", "--json", cwd=registry.root).stdout)
    assert [row["release"] for row in rows] == ["tiny@1.0.0", "tiny@1.1.0", "tiny@2.0.0"]
    assert rows[0]["tag"] == "tiny@v1.0.0"
    assert registry.git.run("rev-parse", "--verify", rows[0]["tag"])
    assert rows[1]["environments"] == [{"environment": "prod", "role": "canary"}]
    assert set(rows[2]) == {"release", "name", "version", "state", "license", "environments"}
    only = json.loads(modelctl("list", "--env", "prod", "--json", cwd=registry.root).stdout)
    assert [row["release"] for row in only] == ["tiny@1.0.0", "tiny@1.1.0"]


def test_nothing_to_list_says_what_to_do(registry: Registry) -> None:
    done = modelctl("list", "--env", "staging", cwd=registry.root)
    assert (done.returncode, done.stdout) == (0, "")
    assert "staging serves no release" in done.stderr


class TestShow:
    def test_everything_about_one_release(self, registry: Registry) -> None:
        done = modelctl("show", "tiny@canary:prod", cwd=registry.root)
        assert done.returncode == 0, done.stderr
        for words in (
            "tiny@1.1.0  published",
            "environments       prod (canary)",
            "published          2026-01-02T03:04:05Z by Test Person <test@example.org>",
            "attestation        agrees: signed by test@example.org",
            "tag                agrees: tiny@v1.1.0",
            "passed   integrity      3 of 3 files",
            "             bytes 1",
            "5 B  d9298a10d1b0  model.safetensors",
        ):
            assert words in done.stdout, words

    def test_every_figure_with_its_parameters(self, registry: Registry) -> None:
        short = modelctl("show", "tiny@1.1.0", cwd=registry.root).stdout
        whole = modelctl("show", "tiny@1.1.0", "--all", cwd=registry.root).stdout
        assert ("streams 1" in short, "streams 1" in whole) == (False, True)

    def test_a_proposed_release_and_a_name(self, registry: Registry) -> None:
        proposed = modelctl("show", "tiny@2.0.0", cwd=registry.root)
        assert "next: modelctl admit tiny@2.0.0" in proposed.stdout
        assert "tiny@1.1.0" in modelctl("show", "tiny", cwd=registry.root).stdout

    def test_json_holds_all_of_it(self, registry: Registry) -> None:
        body = json.loads(modelctl("show", "tiny@1.0.0", "--json", cwd=registry.root).stdout)
        assert (body["state"], body["record"]["served"]["size_bytes"]) == ("published", 7)
        assert body["report"]["checks"][0]["id"] == "integrity"
        assert body["environments"] == [{"environment": "prod", "role": "stable"}]

    def test_what_is_not_there(self, registry: Registry) -> None:
        done = modelctl("show", "tiny@9.0.0", cwd=registry.root)
        assert (done.returncode, "of tiny there are: 1.0.0, 1.1.0, 2.0.0" in done.stderr) == (2, True)


class TestDiff:
    def test_two_releases_by_their_records(self, registry: Registry) -> None:
        done = modelctl("diff", "tiny@stable:prod", "tiny@canary:prod", "--offline", cwd=registry.root)
        assert done.returncode == 1, done.stderr
        assert "~ model.safetensors  7 bytes" in done.stdout
        assert "~ total size  7 bytes → 5 bytes" in done.stdout
        assert re.search(r"integrity: bytes +1\n", done.stdout)
        same = modelctl("diff", "tiny@1.0.0", "tiny@1.0.0", "--offline", cwd=registry.root)
        assert (same.returncode, "the same bytes" in same.stdout) == (0, True)

    def test_a_folder_beside_a_release(self, registry: Registry, tmp_path: Path) -> None:
        (tmp_path / "model").mkdir()
        (tmp_path / "model" / "model.safetensors").write_bytes(b"weights")
        (tmp_path / "model" / "config.json").write_text('{"a": 1}')
        done = modelctl("diff", "tiny@1.0.0", tmp_path / "model", "--json", cwd=registry.root)
        body = json.loads(done.stdout)
        assert [pair["name"] for pair in body["files"]] == ["config.json"]
        assert body["config"] == [{"name": "config.json: a", "a": None, "b": "1"}]

    @pytest.mark.services
    def test_what_differs_is_read_from_the_bucket(self, registry: Registry, rclone: Running) -> None:
        store = a_store(rclone.address)
        place(store, {"model.safetensors": b"weights"})
        place(store, {"model.safetensors": b"other"}, version="1.1.0")
        env = {
            "MODELCTL_STORE_ENDPOINT": store.server.endpoint,
            "MODELCTL_STORE_BUCKET": store.bucket,
            "MODELCTL_STORE_ACCESS_KEY": ACCESS_KEY,
            "MODELCTL_STORE_SECRET_KEY": SECRET_KEY,
        }
        done = modelctl("diff", "tiny@1.0.0", "tiny@1.1.0", cwd=registry.root, env=env)
        assert "not compared: model.safetensors of tiny@1.0.0: no safetensors header" in done.stdout
