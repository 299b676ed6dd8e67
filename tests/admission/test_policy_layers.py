"""Inheritance: sections merge, values replace, and every value knows its file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelctl.admission.policy import load_policy
from modelctl.admission.policy_text import as_yaml, values
from modelctl.errors import InputError

HEAD = "apiVersion: modelctl.dev/v1\nkind: AdmissionPolicy\nmetadata: {{name: {name}}}\n"


def write(root: Path, name: str, spec: str) -> Path:
    path = root / "policies" / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(HEAD.format(name=name) + spec)
    return path


def test_sections_merge_and_values_replace(tmp_path: Path) -> None:
    write(
        tmp_path, "base",
        "spec:\n  notice: n\n  description: d\n  licenses: [mit, apache-2.0]\n"
        "  checks:\n    concurrency: {streams: 50, duration_s: 60}\n"
        "    quantization: {calibration: {file: a.txt}}\n"
        "  rules:\n  - {id: one, expr: 'true', message: m}\n  - {id: two, expr: 'true', message: m}\n",
    )  # fmt: skip
    write(
        tmp_path, "child",
        "spec:\n  extends: base\n  licenses: [mit]\n  checks:\n    concurrency: {streams: 70}\n"
        "    quantization: {calibration: {dataset: a/b, revision: " + "a" * 40 + "}}\n"
        "  rules:\n  - {id: three, expr: 'true', message: m}\n  - {id: one, expr: 'false', message: m}\n",
    )  # fmt: skip
    spec = load_policy("child", tmp_path).policy.spec
    assert (spec.checks.concurrency.streams, spec.checks.concurrency.duration_s) == (70, 60)
    assert spec.licenses == ("mit",)
    assert (spec.notice, spec.description) == ("n", "")
    assert spec.checks.quantization.calibration is not None
    assert spec.checks.quantization.calibration.file is None
    assert [(rule.id, rule.expr) for rule in spec.rules] == [("one", "false"), ("two", "true"), ("three", "true")]


def test_the_digest_is_of_the_resolved_policy(tmp_path: Path) -> None:
    write(tmp_path, "base", "spec: {checks: {concurrency: {streams: 50}}}\n")
    write(tmp_path, "child", "spec: {extends: base, checks: {concurrency: {max_waiting: 3}}}\n")
    inherited = load_policy("child", tmp_path)
    whole = tmp_path / "child.yaml"
    whole.write_text(as_yaml(inherited))
    assert load_policy(str(whole), tmp_path).digest == inherited.digest
    write(tmp_path, "base", "spec: {checks: {concurrency: {streams: 51}}}\n")
    assert load_policy("child", tmp_path).digest != inherited.digest


def test_every_value_names_its_file_and_line(tmp_path: Path) -> None:
    base = write(tmp_path, "base", "spec:\n  checks:\n    concurrency:\n      streams: 50\n      duration_s: 60\n")
    child = write(tmp_path, "child", "spec:\n  extends: base\n  checks:\n    concurrency:\n      streams: 70\n")
    found = {item.key: item for item in values(load_policy("child", tmp_path))}
    streams, duration = found["checks.concurrency.streams"], found["checks.concurrency.duration_s"]
    assert (streams.value, streams.file, streams.line) == (70, str(child), 8)
    assert (duration.value, duration.file, duration.line) == (60, str(base), 8)
    assert found["checks.malware.max_depth"].file is None
    assert "extends" not in found


def test_the_built_in_policy_can_be_extended_under_its_own_name(tmp_path: Path) -> None:
    write(tmp_path, "production", "spec: {extends: 'modelctl:production', licenses: [MIT]}\n")
    spec = load_policy("production", tmp_path).policy.spec
    assert spec.licenses == ("mit",)
    assert spec.checks.integrity.require_pinned


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"a": "spec: {extends: a}"}, "circle: a → a.*'modelctl:a'"),
        ({"a": "spec: {extends: b}", "b": "spec: {extends: a}"}, "circle: a → b → a"),
        ({"a": "spec: {extends: prodution}"}, "no policy 'prodution'.*did you mean 'production'"),
        ({"a": "spec: {extends: ../a}"}, "'../a' is no policy's name"),
        ({"a": "spec: {extends: [b]}"}, r"found \['b'\], wanted one policy's name"),
        ({"a": "spec: {extends: b}", "b": "spec: {chekcs: {}}"}, "b.yaml: unknown key 'spec.chekcs'"),
        ({"a": "spec: {rules: [{id: x, expr: 'a +', message: m}]}"}, r"a.yaml:4: rule 'x': not CEL"),
        ({"a": "spec: {rules: [{id: x, expr: 'rport.x', message: m}]}"}, "undeclared reference to 'rport.x'"),
        ({"a": "spec: {rules: [{id: x, expr: '1 + 1', message: m}]}"}, "gives a int, wanted true or false"),
        ({"a": "spec: {own_checks: {malware: {}}}"}, "'malware' is the name of a check of modelctl"),
    ],
)
def test_a_mistake_names_its_file(tmp_path: Path, files: dict[str, str], words: str) -> None:
    for name, spec in files.items():
        write(tmp_path, name, spec + "\n")
    with pytest.raises(InputError) as raised:
        load_policy("a", tmp_path)
    import re

    assert re.search(words, f"{raised.value.message} {raised.value.remedy}")


def test_a_long_row_of_policies_ends(tmp_path: Path) -> None:
    for number in range(12):
        write(tmp_path, f"p{number}", f"spec: {{extends: p{number + 1}}}\n")
    with pytest.raises(InputError, match="more than 7 policies in a row"):
        load_policy("p0", tmp_path)
