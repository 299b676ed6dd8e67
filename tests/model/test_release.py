"""release.yaml: what is accepted, and what a refusal says."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelctl.errors import InputError
from modelctl.model.release import Release, load_release, parse_release_id, release_folder

COMMIT = "a" * 40
GOOD = f"""\
apiVersion: modelctl.dev/v1
kind: ModelRelease
metadata: {{name: smollm2-135m, version: 1.0.0}}
spec:
  source: {{hub: acme/tiny, revision: {COMMIT}}}
"""


def write(root: Path, text: str, *, name: str = "smollm2-135m", version: str = "1.0.0") -> Path:
    folder = release_folder(root, name, version)
    folder.mkdir(parents=True)
    (folder / "release.yaml").write_text(text)
    return folder / "release.yaml"


def refuse(root: Path, text: str) -> str:
    with pytest.raises(InputError) as caught:
        load_release(write(root, text))
    assert "release.yaml" in caught.value.message
    return caught.value.message


def test_a_release_with_defaults(tmp_path: Path) -> None:
    release = load_release(write(tmp_path, GOOD))
    assert isinstance(release, Release)
    assert release.id == "smollm2-135m@1.0.0"
    assert release.spec.source.hub == "acme/tiny"
    assert release.spec.quantization is None
    assert release.spec.serving.max_num_seqs == 128


def test_a_folder_with_its_upstream_and_a_quantization(tmp_path: Path) -> None:
    source = f"folder: models/x, upstream: acme/tiny, upstream_revision: {COMMIT}"
    text = GOOD.replace(f"hub: acme/tiny, revision: {COMMIT}", source) + "  quantization: {exclude: [self_attn]}\n"
    spec = load_release(write(tmp_path, text)).spec
    assert spec.source.folder == Path("models/x")
    assert spec.quantization is not None
    assert (spec.quantization.bits, spec.quantization.group_size) == (4, 128)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("revision", "revison", "did you mean 'revision'"),
        (f", revision: {COMMIT}", "", "needs 'revision'"),
        (COMMIT, "main", "revision"),
        ("hub: acme/tiny, ", "hub: acme/tiny, folder: x, ", "exactly one of 'hub', 'folder', 's3' and 'dvc'"),
        (f"hub: acme/tiny, revision: {COMMIT}", "folder: x, upstream: acme/tiny", "belong together"),
        (f"hub: acme/tiny, revision: {COMMIT}", "folder: x, s3: s3://b/x", "exactly one of"),
        (f"hub: acme/tiny, revision: {COMMIT}", "s3: http://b/x", "s3"),
        (f"hub: acme/tiny, revision: {COMMIT}", "dvc: x.dvc, digest: sha256:12", "digest"),
        (
            "hub: acme/tiny, ",
            f"hub: acme/tiny, upstream: acme/tiny, upstream_revision: {COMMIT}, ",
            "leave out 'upstream'",
        ),
        ("acme/tiny", "tiny", "hub"),
        ("1.0.0", "1.0", "version"),
        ("ModelRelease", "Release", "kind"),
        ("v1", "v2", "apiVersion"),
        ("spec:", "spec: [", "release.yaml"),
    ],
)
def test_a_refusal_names_the_key(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert words in refuse(tmp_path, GOOD.replace(old, new))


@pytest.mark.parametrize("line", ["quantization: {exclude: ['(']}", "quantization: {bits: 5}", "license: 3"])
def test_bad_values_below(tmp_path: Path, line: str) -> None:
    assert line.split(":", maxsplit=1)[0] in refuse(tmp_path, GOOD + f"  {line}\n")


def test_the_folder_must_agree(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD, version="1.0.1")
    with pytest.raises(InputError, match=r"metadata\.version is '1\.0\.0', but the folder says '1\.0\.1'"):
        load_release(path)


def test_release_ids() -> None:
    assert parse_release_id("a-b.c@1.2.3-rc.1") == ("a-b.c", "1.2.3-rc.1")
    for text in ("a", "a@", "@1.0.0", "A@1.0.0", "a@1", "../a@1.0.0", "a@1.0.0/..", "a@01.0.0", "a@1.0.0\n"):
        with pytest.raises(InputError):
            parse_release_id(text)
