from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from modelctl.git import Git
from tests.support.browser import look
from tests.support.command import modelctl
from tests.support.history import Registry, a_served_registry
from tests.tooling.scripts import ROOT


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    return a_served_registry(tmp_path_factory.mktemp("audit") / "registry")


def test_the_timeline_is_a_table_of_who_did_what(registry: Registry) -> None:
    done = modelctl("audit", "tiny", cwd=registry.root)
    assert done.returncode == 0
    for words in ("proposed", "admitted", "published", "rolled-out → prod", "Test Person", "tagged"):
        assert words in done.stdout


@pytest.mark.parametrize("question", [(), ("--source", "model")], ids=["timeline", "origins"])
def test_a_narrow_terminal_gets_paragraphs(registry: Registry, question: tuple[str, ...]) -> None:
    lines = modelctl("audit", *question, cwd=registry.root, env={"COLUMNS": "40"}).stdout.splitlines()
    assert max(map(len, lines)) <= 40
    assert "tiny@1.0.0" in [line.strip() for line in lines]  # in one piece


def test_verified(registry: Registry) -> None:
    done = modelctl("audit", "--verify", cwd=registry.root)
    assert done.returncode == 0
    assert "releases 1, deployments 1, signatures 1" in done.stdout
    assert "every claim agrees" in done.stdout


def test_tampering_is_exit_code_1_and_names_the_commit(registry: Registry, tmp_path: Path) -> None:
    copy = registry.copy(tmp_path / "registry")
    copy.edit(copy.folder() / "record.yaml", "description: folder model", "description: folder modem")
    commit = copy.commit("Fix a typo")
    done = modelctl("audit", "--verify", "--json", "-", cwd=copy.root)
    assert done.returncode == 1
    body = json.loads(done.stdout)
    assert body["verification"]["violations"][0]["rule"] == "audit.record-changed"
    assert body["events"][-1]["kind"] == "record-changed"
    assert f"commit {commit[:12]}" in done.stderr


def test_nothing_found_is_said_and_is_no_verification(registry: Registry) -> None:
    done = modelctl("audit", "--until", "2001-01-01", cwd=registry.root)
    assert done.returncode == 0
    assert "no events" in done.stdout
    misspelt = modelctl("audit", "tinny@1.0.0", "--verify", cwd=registry.root)
    assert (misspelt.returncode, misspelt.stdout) == (2, "")
    assert "did you mean tiny?" in misspelt.stderr


@pytest.mark.parametrize(("arguments", "words"), [(("--since", "yesterday"), "is no date"), (("a@b",), "NAME@VERSION")])
def test_bad_input(registry: Registry, arguments: tuple[str, ...], words: str) -> None:
    done = modelctl("audit", *arguments, cwd=registry.root)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_outside_a_repository(tmp_path: Path) -> None:
    done = modelctl("audit", cwd=tmp_path)
    assert done.returncode == 2
    assert "not in a git repository" in done.stderr


def test_what_serves_now_and_on_which_evidence(registry: Registry) -> None:
    done = modelctl("audit", "--env", "prod", "--now", cwd=registry.root)
    assert done.returncode == 0
    for words in ("prod  stable  tiny@1.0.0", "admitted by policy demo", "7 of 7 checks passed", "tag tiny@v1.0.0"):
        assert words in done.stdout
    body = json.loads(modelctl("audit", "--now", "--json", "-", cwd=registry.root).stdout)
    (serving,) = body["serving"]
    assert (serving["role"], serving["verdict"], serving["tag"]) == ("stable", "admitted", "tiny@v1.0.0")
    assert body["commit"] == body["head"] == registry.git.head()


QUESTIONS = ((), ("--now",), ("--source", "model"), ("--verify",))


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda words: " ".join(words) or "the timeline")
def test_its_json_is_what_the_published_schema_says(
    registry: Registry, tmp_path: Path, question: tuple[str, ...]
) -> None:
    schema = json.loads((ROOT / "docs" / "schemas" / "audit.v1.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    copy = registry.copy(tmp_path / "registry")
    copy.edit(copy.folder() / "record.yaml", "description: folder model", "description: folder modem")
    copy.commit("Fix a typo")
    body = json.loads(modelctl("audit", *question, "--json", "-", cwd=copy.root).stdout)
    validator.validate(body)
    assert body.keys() == schema["properties"].keys()
    described = schema["$defs"]["Event"]["properties"]
    assert all(event.keys() == described.keys() for event in body["events"])
    assert described["evidence"]["description"]
    body["events"][0]["kind"] = "fine"
    assert not validator.is_valid(body)


def test_where_releases_came_from(registry: Registry) -> None:
    done = modelctl("audit", "--source", "model", "--csv", "-", cwd=registry.root)
    header, line = done.stdout.splitlines()
    assert header.startswith("release,state,sources,")
    assert line.startswith("tiny@1.0.0,published,model;")
    assert "no release fits" in modelctl("audit", "--waiver", "none", cwd=registry.root).stdout


def test_findings_as_csv_name_what_could_not_be_checked_too(registry: Registry, tmp_path: Path) -> None:
    copy = registry.copy(tmp_path / "registry")
    copy.git.run("rm", "--quiet", "policies/allowed_signers")
    copy.commit("Forget who may sign")
    copy.propose("other")
    copy.publish("other", content="other")
    copy.git.run("tag", "--delete", "other@v1.0.0")
    done = modelctl("audit", "--verify", "--csv", "-", cwd=copy.root)
    assert done.returncode == 1
    rules = {line.partition(",")[0] for line in done.stdout.splitlines()}
    assert {"audit.tag-missing", "unverified"} <= rules


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--now", "--source", "model"), "questions of their own"),
        (("--bucket",), "belong to --verify"),
        (("--at", "noon"), "--at: 'noon' is no date"),
        (("--at", "2001-01-01"), "before the first commit"),
        (("--json", "-", "--csv", "-"), "both want stdout"),
    ],
)
def test_questions_that_make_no_sense(registry: Registry, arguments: tuple[str, ...], words: str) -> None:
    done = modelctl("audit", *arguments, cwd=registry.root)
    assert done.returncode == 2
    assert words in done.stderr


def test_a_shallow_clone_tells_what_it_has_and_that_it_is_not_all(registry: Registry, tmp_path: Path) -> None:
    Git(tmp_path).run("clone", "--quiet", "--depth", "1", f"file://{registry.root}", "clone")
    done = modelctl("audit", cwd=tmp_path / "clone")
    assert done.returncode == 3
    assert "this clone is shallow" in done.stderr
    assert "git fetch --unshallow" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(1200, False), (400, True)])
def test_the_page_needs_nothing_else_and_fits_a_phone(
    registry: Registry, tmp_path: Path, width: int, dark: bool
) -> None:
    done = modelctl("audit", "--verify", "--html", str(tmp_path / "audit.html"), cwd=registry.root)
    assert done.returncode == 0
    page = (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert "Every claim agrees with every other" in page
    seen = look(page, tmp_path, width=width, dark=dark)
    assert seen.loaded == []
    assert seen.width <= seen.window
    assert "prod/tiny" in seen.texts
    assert seen.paper == ("rgb(18, 22, 28)" if dark else "rgb(255, 255, 255)")


def test_the_page_escapes_what_people_wrote(registry: Registry, tmp_path: Path) -> None:
    copy = registry.copy(tmp_path / "registry")
    copy.edit(copy.folder() / "record.yaml", "description: folder model", "description: folder modem")
    copy.commit("<script>alert(1)</script>")
    done = modelctl("audit", "--verify", "--html", "audit.html", cwd=copy.root)
    assert done.returncode == 1
    page = (copy.root / "audit.html").read_text(encoding="utf-8")
    assert "Claims contradict each other" in page
    assert "<script" not in page
