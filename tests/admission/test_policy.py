"""Policies: strict, found by name, named by a digest of what they demand."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelctl.admission.policy import built_in_folder, find_policy, load_policy
from modelctl.checks import CHECK_IDS
from modelctl.errors import InputError

HEAD = "apiVersion: modelctl.dev/v1\nkind: AdmissionPolicy\nmetadata: {{name: {name}}}\n"


def write(root: Path, text: str, name: str = "mine") -> Path:
    path = root / "policies" / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(HEAD.format(name=name) + text)
    return path


def test_production_has_the_numbers_of_the_contract(tmp_path: Path) -> None:
    checks = load_policy("production", tmp_path).policy.spec.checks
    assert checks.quantization.max_drop_points == 1.5
    assert (checks.concurrency.streams, checks.concurrency.duration_s, checks.concurrency.max_waiting) == (100, 1800, 5)
    assert checks.concurrency.require_gpu
    assert not checks.malware.allow_no_database_version


def test_every_built_in_policy_loads_and_requires_all_seven(tmp_path: Path) -> None:
    names = sorted(path.stem for path in built_in_folder().glob("*.yaml"))
    assert names == ["demo", "production"]
    for name in names:
        policy = load_policy(name, tmp_path).policy
        assert all(policy.limits(check).required for check in CHECK_IDS)
    assert load_policy("demo", tmp_path).policy.spec.notice


def test_the_repositorys_own_policy_wins(tmp_path: Path) -> None:
    own = write(tmp_path, "spec: {description: ours}\n", name="production")
    assert find_policy("production", tmp_path) == own


def test_the_digest_is_of_what_is_demanded(tmp_path: Path) -> None:
    write(tmp_path, "spec: {checks: {concurrency: {streams: 100}}}\n")
    first = load_policy("mine", tmp_path).digest
    write(tmp_path, "# a comment\nspec:\n  checks:\n    concurrency:\n      streams: 100\n")
    assert load_policy("mine", tmp_path).digest == first
    write(tmp_path, "spec: {checks: {concurrency: {streams: 99}}}\n")
    assert load_policy("mine", tmp_path).digest != first


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("spec: {checks: {concurency: {}}}\n", "did you mean 'concurrency'"),
        ("spec: {checks: {long-context: {fraction: [1]}}}\n", "did you mean 'fractions'"),
        ("spec: {checks: {concurrency: {streams: many}}}\n", "found 'many'"),
        ("spec: {isolation: maybe}\n", "'maybe'"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, words: str) -> None:
    write(tmp_path, text)
    with pytest.raises(InputError, match=words):
        load_policy("mine", tmp_path)


def test_a_policy_under_another_name(tmp_path: Path) -> None:
    write(tmp_path, "spec: {}\n", name="mine").rename(tmp_path / "policies" / "other.yaml")
    with pytest.raises(InputError, match=r"metadata\.name is 'mine', but the file is 'other\.yaml'"):
        load_policy("other", tmp_path)
