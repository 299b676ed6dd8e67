"""A waiver lets one finding of one tree stand, until a day, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelctl.admission.policy import WaiverRules
from modelctl.admission.policy_files import FolderFiles
from modelctl.admission.waivers import Waivers, load_waivers
from modelctl.checks.base import Finding
from modelctl.errors import InputError
from tests.support.waivers import write_waiver

DIGEST = "sha256:" + "ab" * 32
OTHER = "sha256:" + "cd" * 32
FINDING = Finding(rule="code.remote-code", message="m", remedy="r", path="config.json")
ENDED = {"code": True}


def waivers(root: Path, release: str | None = None, **rules: object) -> Waivers:
    loaded = load_waivers(FolderFiles(root))
    return Waivers(waivers=loaded, rules=WaiverRules.model_validate(rules), release=release)


def problems(found: Waivers, decided: dict[str, bool] | None = None) -> list[str]:
    ended = ENDED if decided is None else decided
    return [item.rule for item in found.problems(digests=frozenset({DIGEST}), decided=ended)]


def test_the_finding_that_it_names_is_waived_with_its_reason(tmp_path: Path) -> None:
    write_waiver(tmp_path)
    found = waivers(tmp_path)
    standing, (waived,) = found.apply([FINDING], DIGEST)
    assert standing == ()
    assert (waived.finding, waived.waiver) == (FINDING, "policies/waivers/one.yaml")
    assert (waived.owner, waived.approver, waived.reason) == (
        "ann@example.org", "bob@example.org", "reviewed by hand",
    )  # fmt: skip
    assert problems(found) == []


@pytest.mark.parametrize(
    ("changes", "digest"),
    [
        ({}, OTHER),
        ({"path": "other.json"}, DIGEST),
        ({"path": None}, DIGEST),
        ({"rule": "code.other"}, DIGEST),
    ],
)
def test_anything_else_stands_and_the_waiver_is_a_finding(
    tmp_path: Path, changes: dict[str, object], digest: str
) -> None:
    write_waiver(tmp_path, **changes)
    found = waivers(tmp_path)
    assert found.apply([FINDING], digest) == ((FINDING,), ())
    assert problems(found) == ["policy.waiver-unmatched"]


@pytest.mark.parametrize(
    ("days", "rules"),
    [(-1, {}), (40, {"max_days": 30}), (30, {"never": ("code.*",)})],
)
def test_one_that_does_not_hold_waives_nothing_and_is_a_finding(
    tmp_path: Path, days: int, rules: dict[str, object]
) -> None:
    write_waiver(tmp_path, days=days)
    found = waivers(tmp_path, **rules)
    assert found.apply([FINDING], DIGEST) == ((FINDING,), ())
    assert problems(found) == ["policy.waiver-invalid"]


def test_the_last_day_counts(tmp_path: Path) -> None:
    write_waiver(tmp_path, days=0)
    assert waivers(tmp_path).apply([FINDING], DIGEST)[0] == ()


def test_of_a_check_that_did_not_end_nobody_knows_what_it_would_find(tmp_path: Path) -> None:
    write_waiver(tmp_path)
    assert problems(waivers(tmp_path), decided={"code": False}) == []
    assert problems(waivers(tmp_path), decided={}) == []


def test_other_releases_waivers_are_their_business_and_this_ones_old_bytes_are_not(tmp_path: Path) -> None:
    write_waiver(tmp_path, digest=OTHER, release="tiny@1.0.0", days=-5)
    assert problems(waivers(tmp_path, "large@1.0.0")) == []
    assert problems(waivers(tmp_path, "tiny@1.0.0")) == ["policy.waiver-invalid"]
    write_waiver(tmp_path, digest=OTHER, release="tiny@1.0.0")
    assert problems(waivers(tmp_path, "tiny@1.0.0")) == ["policy.waiver-unmatched"]


def test_a_waiver_for_one_release_is_none_for_another_with_the_same_bytes(tmp_path: Path) -> None:
    write_waiver(tmp_path, release="tiny@1.0.0")
    assert waivers(tmp_path, "tiny@1.0.0").apply([FINDING], DIGEST)[0] == ()
    for release in ("tiny@1.0.1", None):
        other = waivers(tmp_path, release)
        assert other.apply([FINDING], DIGEST) == ((FINDING,), ())
        assert problems(other) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"approver": "ANN@example.org"}, "owner and approver are the same"),
        ({"rule": "code"}, "'spec.rule': found 'code'"),
        ({"rule": "code.*"}, "'spec.rule'"),
        ({"reason": " "}, "'spec.reason'"),
        ({"expires": None}, "key 'spec.expires' is missing"),
        ({"expires": "soon"}, "'spec.expires'"),
        ({"digest": "abc"}, "'spec.digest'"),
        ({"pth": "x"}, "did you mean 'path'"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    write_waiver(tmp_path, **changes)
    with pytest.raises(InputError, match=words.replace("*", r"\*")):
        load_waivers(FolderFiles(tmp_path))


def test_two_for_the_same_finding(tmp_path: Path) -> None:
    write_waiver(tmp_path)
    write_waiver(tmp_path, "two")
    with pytest.raises(InputError, match=r"same finding as .*one\.yaml"):
        load_waivers(FolderFiles(tmp_path))
