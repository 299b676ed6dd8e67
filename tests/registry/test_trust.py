"""A list of files is believed for good reasons, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelctl.errors import CannotDecideError, InputError, RefusedError
from modelctl.registry.manifest import attestation_key, manifest_key
from modelctl.registry.store import ObjectStore
from modelctl.registry.trust import signers_of, trusted
from tests.support.bucket import Placed, overwrite, place
from tests.support.keys import ssh_key

pytestmark = pytest.mark.services
FILES = {"config.json": b"{}\n", "w": b"weights"}


@pytest.fixture
def signers(tmp_path: Path) -> Path:
    ssh_key(tmp_path / "key")
    path = tmp_path / "signers"
    path.write_text(f"ci@example.org {(tmp_path / 'key.pub').read_text()}")
    return path


@pytest.fixture
def release(store: ObjectStore, signers: Path, tmp_path: Path) -> Placed:
    return place(store, FILES, key=tmp_path / "key")


def test_a_signature_of_an_allowed_signer_over_these_files(release: Placed, store: ObjectStore, signers: Path) -> None:
    found = trusted(store, "tiny", "1.0.0", signers=signers_of(signers.parent, signers))
    assert found.served == release.served
    assert found.grounds() == ("the attestation that ci@example.org signed",)
    assert found.signed is not None
    assert found.signed.statement.report.verdict == "admitted"


def test_what_stands_behind_nothing_says_so(release: Placed, store: ObjectStore) -> None:
    assert trusted(store, "tiny", "1.0.0").grounds() == ()
    assert trusted(store, "tiny", "1.0.0", digest=release.served.tree_digest).grounds() == ("the digest given",)
    with pytest.raises(RefusedError, match="and --digest is sha256:0000"):
        trusted(store, "tiny", "1.0.0", digest="sha256:" + "0" * 64)
    with pytest.raises(InputError, match="is no tree digest"):
        trusted(store, "tiny", "1.0.0", digest="sha256:0")
    with pytest.raises(InputError, match="has no manifest there"):
        trusted(store, "tiny", "9.0.0")


def test_a_manifest_of_other_files_than_the_signed_ones_is_refused(
    release: Placed, store: ObjectStore, signers: Path
) -> None:
    place(store, {**FILES, "w": b"backdoor"})
    with pytest.raises(RefusedError, match="signed are the files of"):
        trusted(store, "tiny", "1.0.0", signers=signers_of(signers.parent, signers))


def test_the_attestation_of_another_release_is_refused(
    release: Placed, store: ObjectStore, signers: Path, tmp_path: Path
) -> None:
    place(store, FILES, version="0.9.0", key=tmp_path / "key")
    other = store.read(attestation_key("tiny", "0.9.0"))
    assert other is not None
    overwrite(store, attestation_key("tiny", "1.0.0"), other)
    with pytest.raises(RefusedError, match=r"is the attestation of tiny@0\.9\.0"):
        trusted(store, "tiny", "1.0.0", signers=signers_of(signers.parent, signers))


def test_a_signature_of_nobody_allowed_is_refused(
    release: Placed, store: ObjectStore, signers: Path, tmp_path: Path
) -> None:
    ssh_key(tmp_path / "other")
    signers.write_text(f"someone {(tmp_path / 'other.pub').read_text()}")
    with pytest.raises(RefusedError, match="no allowed key has signed"):
        trusted(store, "tiny", "1.0.0", signers=signers_of(signers.parent, signers))


def test_no_attestation_decides_nothing(store: ObjectStore, signers: Path) -> None:
    place(store, FILES)
    with pytest.raises(CannotDecideError, match="holds no attestation"):
        trusted(store, "tiny", "1.0.0", signers=signers_of(signers.parent, signers))
    overwrite(store, attestation_key("tiny", "1.0.0"), b"{}")
    with pytest.raises(RefusedError, match="not a DSSE envelope"):
        trusted(store, "tiny", "1.0.0", signers=signers_of(signers.parent, signers))


def test_a_manifest_that_contradicts_itself_is_refused(release: Placed, store: ObjectStore) -> None:
    content = store.read(manifest_key("tiny", "1.0.0"))
    assert content is not None
    overwrite(store, manifest_key("tiny", "1.0.0"), content.replace(b'"size_bytes": 7', b'"size_bytes": 8'))
    with pytest.raises(RefusedError, match="the files listed make"):
        trusted(store, "tiny", "1.0.0")


def test_a_list_that_allows_nobody_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "signers").write_text("# nobody\n")
    with pytest.raises(InputError, match="nobody may sign"):
        signers_of(tmp_path, tmp_path / "signers")
    assert signers_of(tmp_path) is None
