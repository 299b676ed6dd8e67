"""The documents' check finds what it is there to find."""

from __future__ import annotations

import pytest

from tests.tooling.scripts import load_script

check_docs = load_script("scripts/check_docs.py")


@pytest.mark.parametrize(
    "line",
    [
        "modelctl config show --json",
        "MODELCTL_POLICY=demo modelctl config show",
        "make lint test",
        "ls --colour",
        "modelctl …",
    ],
)
def test_lines_that_are_right(line: str) -> None:
    assert check_docs.check_command(line) is None


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("modelctl config show --xml", "show has no option --xml"),
        ("modelctl config hide", "no command hide"),
        ("modelctl amit .", "no command amit"),
        ("make tset", "the Makefile has no target tset"),
    ],
)
def test_lines_that_are_wrong(line: str, problem: str) -> None:
    assert check_docs.check_command(line) == f"`{line}`: {problem}"


def test_commands_are_found_in_shell_blocks_and_in_inline_code() -> None:
    text = "Run `make test`.\n```sh\n$ modelctl admit . \\\n  --json -\n```\n```yaml\nmake: nothing\n```\n"
    assert [" ".join(line.split()) for line in check_docs.commands(text)] == ["modelctl admit . --json -", "make test"]


def test_anchors_are_those_of_a_code_host() -> None:
    assert check_docs.anchor("Exit codes of `admit`") == "exit-codes-of-admit"


def test_a_registry_host_and_a_machine_path_are_found() -> None:
    assert check_docs.HOSTS.search("https://" + "pypi." + "org/simple")
    assert check_docs.MACHINE_PATHS.search("see /" + "root/x")
    assert not check_docs.MACHINE_PATHS.search("see registry/" + "root/x")


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule",
    [
        "tokenizer.missing",  # the keyword of a call
        "long-context.rejected",  # the first argument of a call
        "quantization.accuracy-drop",  # behind the check's id
        "malware.signature",  # the key of a table
        "integrity.link-outside",  # the kind of a problem
        "integrity.index-wrong-shard",  # a branch of what a name is set to
    ],
)
def test_rules_are_found_however_they_are_written(rule: str) -> None:
    assert rule in load_script("scripts/rules.py").rules()


def test_the_documents_are_true() -> None:
    assert check_docs.problems() == []


def test_every_rule_says_why_and_how_to_mend_it() -> None:
    pages = load_script("scripts/command_pages.py")
    assert list(pages.gaps()) == []
    mended = load_script("scripts/remedies.py").remedies()
    assert "GPUs or replicas" in mended["concurrency.ttft"][0]  # the rule's name is put together
    assert "llama-gguf-split" in mended["integrity.gguf-extra-part"][0]  # the kind of a problem
    assert "safetensors" in mended["malware.pickle"][0]  # a table
    assert "calibrate with more samples" in mended["quantization.accuracy-drop"][0]  # a constant


def test_the_page_of_commands_is_the_help_of_each() -> None:
    page = load_script("scripts/command_pages.py").commands_page()
    assert "## modelctl admit\n\n```text\nUsage: modelctl admit [OPTIONS] REPO\n" in page
    assert "### modelctl policy explain\n" in page
    assert "modelctl rollout qwen3-4b@1.2.0 --env prod --dry-run\n" in page
