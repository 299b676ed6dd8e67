"""What may go is what nothing serves and nothing keeps; and git says so before anything is removed."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from modelctl.audit.timeline import timeline
from modelctl.audit.verify import verify
from modelctl.errors import CannotDecideError, InputError
from modelctl.registry.retired import retired
from modelctl.registry.summary import summaries
from modelctl.rollout.deploy import roll_out
from modelctl.rollout.retention import Judged, Rules, judge, retire
from modelctl.rollout.steering import Order, promote
from modelctl.rollout.words import PUBLISHED_FILE
from tests.support.history import Registry, a_long_registry

pytestmark = pytest.mark.slow
NOW = datetime.datetime(2026, 11, 30, tzinfo=datetime.UTC)
RULES = Rules(keep_last=1)


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    """Five releases of tiny, each rolled out after the other: prod serves 1.4.0 and would go back to 1.3.0."""
    return a_long_registry(tmp_path_factory.mktemp("five") / "registry", minors=4, promoted=3)


@pytest.fixture
def registry(five: Registry, tmp_path: Path) -> Registry:
    return five.copy(tmp_path / "registry")


def going(judged: tuple[Judged, ...]) -> list[str]:
    return [item.release.version for item in judged if not item.kept_because]


def reasons(judged: tuple[Judged, ...], version: str) -> str:
    return "; ".join(next(item.kept_because for item in judged if item.release.version == version))


def test_what_is_served_and_what_was_before_stay(registry: Registry) -> None:
    found = judge(registry.root, RULES, NOW)
    assert going(found) == ["1.0.0", "1.1.0", "1.2.0"]
    assert "served: prod (main)" in reasons(found, "1.4.0")
    assert "the newest version" in reasons(found, "1.4.0")
    assert reasons(found, "1.3.0") == "served: prod may go back to it (main)"


def test_what_may_be_stable_stays_as_long_as_nothing_later_was_promoted(registry: Registry) -> None:
    registry.propose(version="1.5.0")
    registry.publish(version="1.5.0", content="5")
    registry.roll_out("tiny@1.5.0")
    assert going(judge(registry.root, RULES, NOW)) == ["1.0.0", "1.1.0", "1.2.0"]  # 1.3.0 is stable still
    promote(registry.root, Order(name="tiny", environment="prod"))
    found = judge(registry.root, RULES, NOW)  # a rollback would bring 1.4.0 back, or 1.3.0
    assert going(found) == ["1.0.0", "1.1.0", "1.2.0"]
    assert reasons(found, "1.3.0") == "served: prod may go back to it (main)"


def test_what_another_branch_serves_stays(registry: Registry) -> None:
    registry.git.run("branch", "staging", "HEAD~7")  # 1.2.0 rolled out, and nothing promoted yet
    found = judge(registry.root, RULES, NOW)
    assert "served: prod (staging)" in reasons(found, "1.2.0")
    assert "served: prod may go back to it (staging)" in reasons(found, "1.0.0")
    assert going(found) == []


def test_the_newest_of_each_name_stay_and_the_young_ones(registry: Registry) -> None:
    assert going(judge(registry.root, Rules(keep_last=4), NOW)) == ["1.0.0"]
    early = datetime.datetime(2026, 1, 20, tzinfo=datetime.UTC)
    assert going(judge(registry.root, RULES, early)) == []
    with pytest.raises(InputError, match="at least the newest"):
        judge(registry.root, Rules(keep_last=0), NOW)


def test_a_policy_keeps_what_was_published_under_it(registry: Registry) -> None:
    path = registry.root / "policies" / "demo.yaml"
    text = path.read_text()
    path.write_text(text.replace("spec:\n", "spec:\n  retention: {days: 4000, mode: governance}\n", 1))
    found = judge(registry.root, RULES, NOW)
    assert going(found) == []
    assert "policy 'demo' keeps it for 4000 days" in reasons(found, "1.0.0")
    path.write_text("{}\n")
    assert "can't be read, so it may keep it" in reasons(judge(registry.root, RULES, NOW), "1.0.0")


def test_the_source_of_another_release_stays(registry: Registry) -> None:
    registry.propose(name="child")
    path = registry.folder("child") / "release.yaml"
    path.write_text(path.read_text().replace("folder: model", "s3: s3://models/tiny/1.1.0"))
    found = judge(registry.root, RULES, NOW)
    assert reasons(found, "1.1.0") == "is a source of child@1.0.0"


def test_when_what_is_served_is_not_known_nothing_is_decided(registry: Registry, tmp_path: Path) -> None:
    registry.git.run("clone", "--quiet", "--depth=1", f"file://{registry.root}", str(tmp_path / "shallow"))
    with pytest.raises(CannotDecideError, match="shallow"):
        judge(tmp_path / "shallow", RULES, NOW)
    for path in registry.deployment().iterdir():
        path.unlink()
    registry.commit("Take tiny down")
    with pytest.raises(CannotDecideError, match="what is in use is not known"):
        judge(registry.root, RULES, NOW)
    assert len(going(judge(registry.root, Rules(keep_last=1, no_environments=True), NOW))) == 4


class TestRetired:
    def test_the_audit_understands_it(self, registry: Registry) -> None:
        (item,) = [item for item in summaries(registry.root) if item.version == "1.0.0"]
        commit = retire(registry.root, item, reason="nobody\nEnvironment: prod", now=NOW)
        said = registry.git.run("show", "-s", "--format=%B", commit)
        assert "Model-Retired: tiny@1.0.0" in said
        assert "Reason: nobody Environment: prod" in said
        assert "tiny_1.0.0" not in (registry.root / PUBLISHED_FILE).read_text()
        found = verify(registry.root)
        assert (found.violations, found.unverified) == ((), ())
        (event,) = [event for event in timeline(registry.root) if event.kind == "retired"]
        assert (event.release, event.reason) == ("tiny@1.0.0", "nobody Environment: prod")
        assert [item.state for item in summaries(registry.root)][:2] == ["retired", "published"]
        assert retired(registry.root, "tiny", "1.0.0") is not None

    def test_it_is_served_no_more(self, registry: Registry) -> None:
        (item,) = [item for item in summaries(registry.root) if item.version == "1.0.0"]
        retire(registry.root, item, reason="old", now=NOW)
        with pytest.raises(InputError, match="was retired at 2026-11-30T00:00:00Z"):
            roll_out(registry.root, "tiny@1.0.0", "prod")
        (item,) = [item for item in summaries(registry.root) if item.version == "1.4.0"]
        retire(registry.root, item, reason="by mistake", now=NOW)
        assert "audit.deployed-retired" in {item.rule for item in verify(registry.root).violations}

    @pytest.mark.parametrize("change", ["without-trailer", "with-more", "afterwards", "other-digest"])
    def test_what_only_looks_like_it_is_found(self, registry: Registry, change: str) -> None:
        (item,) = [item for item in summaries(registry.root) if item.version == "1.0.0"]
        path = registry.folder() / "retired.yaml"
        retire(registry.root, item, reason="old", now=NOW)
        if change == "afterwards":
            registry.edit(path, "reason: old", "reason: stolen")
            registry.commit("Rewrite history")
        else:
            text = path.read_text()
            registry.git.run("reset", "--quiet", "--hard", "HEAD~1")
            if change == "other-digest":
                text = text.replace(item.tree_digest or "", "sha256:" + "0" * 64)
            path.write_text(text)
            trailers = {} if change == "without-trailer" else {"Model_Retired": "tiny@1.0.0"}
            if change == "with-more":
                registry.edit(registry.folder() / "record.yaml", "folder model", "folder other")
            registry.commit("Retire tiny@1.0.0", **trailers)
        rule = "audit.retired-digest" if change == "other-digest" else "audit.record-changed"
        assert rule in {item.rule for item in verify(registry.root).violations}

    def test_uncommitted_changes_are_not_swept_along(self, registry: Registry) -> None:
        registry.edit(registry.folder() / "record.yaml", "folder model", "folder other")
        (item,) = [item for item in summaries(registry.root) if item.version == "1.0.0"]
        with pytest.raises(InputError, match="changed and not committed"):
            retire(registry.root, item, reason="old", now=NOW)
