"""Which releases came from a source, a base model, a policy, a waiver."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from modelctl.admission.report import WaivedFinding
from modelctl.audit.history import read_history
from modelctl.audit.origins import Search, origins
from modelctl.audit.timeline import events_of
from modelctl.checks.base import Finding
from tests.support.history import Registry, a_served_registry, an_admission

COMMIT = "0123456789" * 4


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    """tiny@1.0.0 of a folder, served; hub@1.0.0 of the Hub with a card and a waiver; gone@1.0.0, withdrawn."""
    registry = a_served_registry(tmp_path_factory.mktemp("origins") / "registry")
    registry.propose("hub")
    registry.edit(
        registry.folder("hub") / "release.yaml",
        "source: {folder: model}",
        f"source: {{hub: Org/Model, revision: {COMMIT}}}\n  base: {{s3: s3://models/base/1.0.0}}",
    )
    registry.commit("Take it from the Hub")
    digest = registry.write_record("hub").served.tree_digest
    finding = Finding(rule="code.risky-call", message="m", remedy="r")
    waived = WaivedFinding(
        finding=finding,
        waiver="policies/waivers/old-code.yaml",
        reason="r",
        owner="a",
        approver="b",
        expires="2099-01-01",
    )
    report = an_admission(registry.root, "hub@1.0.0", digest)
    report = replace(report, checks=(replace(report.checks[0], waived=(waived,)), *report.checks[1:]))
    registry.write_record("hub", report=report)
    (registry.folder("hub") / "card.yaml").write_text(
        "apiVersion: modelctl.dev/v1\nkind: ModelCard\nbase_models: [org/Base]\n", encoding="utf-8"
    )
    registry.commit("Publish hub@1.0.0", Model_Release="hub@1.0.0", Model_Digest=digest)
    registry.propose("gone")
    registry.git.run("rm", "-r", "--quiet", str(registry.folder("gone")))
    registry.commit("Withdraw it")
    return registry


@pytest.mark.parametrize(
    ("search", "releases"),
    [
        (Search(source="model"), ["tiny@1.0.0", "gone@1.0.0"]),
        (Search(source="org/model"), ["hub@1.0.0"]),
        (Search(source=f"org/model@{COMMIT}"), ["hub@1.0.0"]),
        (Search(source="org/model@" + "0" * 40), []),
        (Search(source="sha256:" + "ab" * 32), ["tiny@1.0.0", "hub@1.0.0"]),
        (Search(base="org/base"), ["hub@1.0.0"]),
        (Search(base="s3://models/base"), ["hub@1.0.0"]),
        (Search(policy="demo"), ["tiny@1.0.0", "hub@1.0.0"]),
        (Search(policy="lax"), []),
        (Search(waiver="old-code"), ["hub@1.0.0"]),
        (Search(waiver="policies/waivers/old-code.yaml"), ["hub@1.0.0"]),
        (Search(waiver="other"), []),
        (Search(source="model", policy="demo"), ["tiny@1.0.0"]),
    ],
)
def test_what_fits(registry: Registry, search: Search, releases: list[str]) -> None:
    history = read_history(registry.root)
    assert [item.release for item in origins(history, events_of(history), search)] == releases


def test_a_policys_digest_may_be_begun(registry: Registry) -> None:
    history = read_history(registry.root)
    events = events_of(history)
    (tiny, *_) = origins(history, events, Search(policy="demo"))
    assert tiny.policy_digest
    assert len(origins(history, events, Search(policy=tiny.policy_digest[:20]))) == 2
    assert origins(history, events, Search(policy="sha256:")) == []


def test_what_is_told_of_each(registry: Registry) -> None:
    history = read_history(registry.root)
    tiny, gone = origins(history, events_of(history), Search(source="model"))
    assert (tiny.state, tiny.served_in, tiny.problem) == ("published", ("prod",), None)
    assert (gone.state, gone.served_in) == ("withdrawn", ())


def test_a_release_file_that_can_not_be_read_is_named_and_not_left_out(registry: Registry, tmp_path: Path) -> None:
    copy = registry.copy(tmp_path / "registry")
    (copy.folder("new").mkdir(parents=True))
    (copy.folder("new") / "release.yaml").write_text("model: [", encoding="utf-8")
    copy.commit("Propose new@1.0.0")
    history = read_history(copy.root)
    found = origins(history, events_of(history), Search(source="model"))
    assert found[-1].release == "new@1.0.0"
    assert found[-1].problem
