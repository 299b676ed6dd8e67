"""What the Hub is asked, what is believed of its answers, and how each failure is worded; see test_download.py too."""

from __future__ import annotations

import datetime
import ipaddress
from email.utils import format_datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from modelctl.errors import CannotDecideError, InputError, ModelctlError, RefusedError
from modelctl.model.hub import Hub, is_plain_path
from modelctl.model.hub_errors import asked_wait_s
from modelctl.model.sources import Snapshot, resolve_source
from tests.support.hub import LocalHub

REPO = "acme/tiny"


def resolve(text: str, tmp_path: Path) -> Snapshot:
    return resolve_source(text, base=tmp_path, store=tmp_path / "store")


def test_every_file_arrives_whole_with_the_listing_attached(
    hub: LocalHub, hub_files: dict[str, bytes], tmp_path: Path
) -> None:
    commit = hub.push(REPO, hub_files)
    snapshot = resolve(REPO, tmp_path)
    assert snapshot.kind == "hub"
    assert snapshot.description == f"Hub {REPO}@{commit}"
    assert (snapshot.repo_id, snapshot.asked_revision, snapshot.commit) == (REPO, "main", commit)
    assert {entry.path: (snapshot.tree.root / entry.path).read_bytes() for entry in snapshot.tree.files} == hub_files
    assert snapshot.upstream is not None
    assert snapshot.upstream.commit == commit
    assert set(snapshot.upstream.files) == set(hub_files)


@pytest.mark.parametrize("moment", ["after_revision", "after_listing"])
def test_a_branch_that_moves_meanwhile_changes_nothing(
    hub: LocalHub, hub_files: dict[str, bytes], tmp_path: Path, moment: str
) -> None:
    first = hub.push(REPO, hub_files)
    setattr(hub.faults, moment, lambda: hub.push(REPO, {"config.json": b"{}", "extra.safetensors": b""}))
    snapshot = resolve(REPO, tmp_path)
    assert hub.repositories[REPO].branches["main"] != first
    assert snapshot.commit == first
    assert {entry.path: (snapshot.tree.root / entry.path).read_bytes() for entry in snapshot.tree.files} == hub_files
    assert [line for line in hub.requests if "/main" in line] == [f"GET /api/models/{REPO}/revision/main"]


def test_a_pinned_commit_is_asked_for_as_it_is(hub: LocalHub, hub_files: dict[str, bytes], tmp_path: Path) -> None:
    first = hub.push(REPO, hub_files)
    hub.push(REPO, hub_files | {"config.json": b"{}"})
    snapshot = resolve(f"{REPO}@{first}", tmp_path)
    assert (snapshot.asked_revision, snapshot.commit) == (first, first)


def test_a_branch_with_a_slash_in_its_name_is_one_revision(hub: LocalHub, hub_files: dict[str, bytes]) -> None:
    commit = hub.push(REPO, hub_files, branch="refs/pr/1")
    assert Hub().listing(REPO, "refs/pr/1").commit == commit
    assert hub.requests[0] == f"GET /api/models/{REPO}/revision/refs%2Fpr%2F1"


def test_a_repository_that_was_renamed_is_not_followed(hub: LocalHub, hub_files: dict[str, bytes]) -> None:
    hub.push("someone/tiny", hub_files)
    hub.faults.renamed[REPO] = "someone/tiny"
    with pytest.raises(InputError, match="answers for 'someone/tiny' when asked for acme/tiny") as caught:
        Hub().listing(REPO, "main")
    assert "who owns it" in (caught.value.remedy or "")


@pytest.mark.parametrize(
    ("error", "token", "kind", "words", "remedy"),
    [
        ((403, "GatedRepo"), None, CannotDecideError, "is gated .*, and no token was sent", "export HF_TOKEN="),
        ((401, "GatedRepo"), None, CannotDecideError, "is gated .*, and no token was sent", "accept its terms at http"),
        ((403, "GatedRepo"), "hf_x", CannotDecideError, "the token in HF_TOKEN has no access", "with that account"),
        ((401, ""), None, InputError, "without a token .* shows no repository acme/tiny", "hf auth login"),
        ((401, ""), "hf_x", CannotDecideError, "refuses the token of HF_TOKEN", "may have expired"),
        ((403, ""), "hf_x", CannotDecideError, r"forbids acme/tiny to the token of HF_TOKEN \(status 403\)", "acme's"),
        ((403, ""), None, CannotDecideError, "forbids acme/tiny to a request without a token", "export HF_TOKEN="),
        ((404, "RepoNotFound"), None, InputError, r"has no repository acme/tiny \(status 404\)$", "spelling"),
        ((404, "RepoNotFound"), "hf_x", InputError, "or the token of HF_TOKEN may not see it", "a token that may"),
        ((404, "RevisionNotFound"), None, InputError, "no revision 'main'", "tree/main"),
        ((404, "EntryNotFound"), None, CannotDecideError, "lists a file .* that it does not have", "mirror"),
        ((500, ""), None, CannotDecideError, r"failed for acme/tiny: .*500", "again later"),
        ((503, ""), None, CannotDecideError, r"failed for acme/tiny: .*503", "again later"),
        ((418, ""), None, CannotDecideError, "failed for acme/tiny", "check HF_ENDPOINT"),
    ],
)
def test_each_refusal_of_the_hub_has_its_own_words(
    hub: LocalHub,
    monkeypatch: pytest.MonkeyPatch,
    error: tuple[int, str],
    token: str | None,
    kind: type[ModelctlError],
    words: str,
    remedy: str,
) -> None:
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    hub.faults.repo_error = error
    with pytest.raises(kind, match=words) as caught:
        Hub().listing(REPO, "main")
    assert remedy in (caught.value.remedy or "")


def test_the_token_file_of_hf_is_used_and_named(
    hub: LocalHub, hub_files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = tmp_path / "token"
    stored.write_text("hf_stored\n")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(stored))
    hub.push(REPO, hub_files)
    Hub().listing(REPO, "main")
    assert set(hub.tokens) == {"Bearer hf_stored"}
    hub.faults.repo_error = (401, "")
    with pytest.raises(CannotDecideError, match=f"refuses the token of {stored}"):
        Hub().listing(REPO, "main")


def test_a_token_file_that_cannot_be_read_is_an_error_of_its_own(
    hub: LocalHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path))
    with pytest.raises(CannotDecideError, match="cannot read the token"):
        Hub().listing(REPO, "main")


def test_a_token_that_no_header_can_hold_is_named(hub: LocalHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_…")
    with pytest.raises(InputError, match="the token of HF_TOKEN holds a character"):
        Hub().listing(REPO, "main")


def test_the_token_is_shown_to_the_hub_and_to_nobody_else(
    hub: LocalHub, hub_files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    hub.faults.lfs_host = "localhost"
    hub.push(REPO, hub_files)
    resolve(REPO, tmp_path)
    shown = {("/lfs/" in line, token) for line, token in zip(hub.requests, hub.tokens, strict=True)}
    assert shown == {(False, "Bearer hf_right"), (True, None)}


def test_a_busy_hub_is_asked_again_within_bounds(hub: LocalHub, hub_files: dict[str, bytes]) -> None:
    hub.push(REPO, hub_files)
    hub.faults.first_answers = {"revision": [(503, {}), (429, {"Retry-After": "3"})], "tree": [(500, {}), (502, {})]}
    waits: list[float] = []
    assert set(Hub(sleep=waits.append).listing(REPO, "main").files) == set(hub_files)
    assert waits == [0.01, 3.0, 0.01, 0.02]


def test_a_hub_that_stays_broken_is_asked_five_times(hub: LocalHub) -> None:
    hub.faults.repo_error = (500, "")
    waits: list[float] = []
    with pytest.raises(CannotDecideError):
        Hub(sleep=waits.append).listing(REPO, "main")
    assert len(hub.requests) == 5
    assert waits == [0.01, 0.02, 0.04, 0.08]


def test_a_longer_wait_than_the_bound_is_left_to_the_person(hub: LocalHub, hub_files: dict[str, bytes]) -> None:
    hub.push(REPO, hub_files)
    hub.faults.first_answers["revision"] = [(429, {"Retry-After": "4000"})]
    with pytest.raises(CannotDecideError, match="429") as caught:
        Hub().listing(REPO, "main")
    assert "wait 4000 s and run the same command again; a token" in (caught.value.remedy or "")
    assert len(hub.requests) == 1


def test_how_long_to_wait_is_read_from_every_form_of_it() -> None:
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=90)
    assert asked_wait_s({"Retry-After": "7"}) == 7
    assert 80 < (asked_wait_s({"Retry-After": format_datetime(later, usegmt=True)}) or 0) <= 90
    assert asked_wait_s({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0
    assert asked_wait_s({"RateLimit": '"api";r=0;t=55'}) == 55
    for odd in ({}, {"Retry-After": "soon"}, {"Retry-After": "9" * 400}, {"Retry-After": "-1"}, {"RateLimit": "t=x"}):
        assert asked_wait_s(odd) is None


def test_no_network_is_one_clear_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(CannotDecideError, match=r"cannot reach http://127\.0\.0\.1:9 for acme/tiny") as caught:
        resolve(REPO, tmp_path)
    assert "hf download acme/tiny --revision main" in (caught.value.remedy or "")


@pytest.mark.parametrize("endpoint", ["localhost:8080", "ftp://hub.example.org", "https://"])
def test_an_endpoint_that_is_no_address_is_an_error_of_input(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    with pytest.raises(InputError, match="HF_ENDPOINT is"):
        Hub().listing(REPO, "main")


def test_a_certificate_that_nobody_trusts_is_told_with_the_variable_that_mends_it(
    hub_files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub.utils import close_session

    pem = certificate(tmp_path / "hub.pem")
    close_session()
    with LocalHub(certificate=pem) as hub:
        commit = hub.push(REPO, hub_files)
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        with pytest.raises(CannotDecideError, match="no certificate that this machine trusts") as caught:
            Hub().listing(REPO, "main")
        assert "export SSL_CERT_FILE=" in (caught.value.remedy or "")
        close_session()
        monkeypatch.setenv("SSL_CERT_FILE", str(pem))
        assert Hub().listing(REPO, "main").commit == commit
    close_session()


def certificate(path: Path) -> Path:
    """A self-signed certificate for 127.0.0.1 and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(secret + builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    return path


@pytest.mark.parametrize("path", ["../config.json", "/etc/x", "a//b", "a/../b", "C:x", "a\\b", "a\nb", ".", "a/./b"])
def test_a_listing_that_leaves_the_repository_is_refused(
    hub: LocalHub, hub_files: dict[str, bytes], tmp_path: Path, path: str
) -> None:
    hub.push(REPO, hub_files)
    hub.faults.listed_paths["config.json"] = path
    with pytest.raises(RefusedError, match="no path inside a repository"):
        resolve(REPO, tmp_path)
    assert not is_plain_path(path)


@pytest.mark.parametrize(
    ("path", "words"),
    [("tokenizer.json", "'tokenizer.json' twice"), ("docs", "'docs' as a file and as a folder")],
)
def test_a_listing_that_names_two_things_alike_is_refused(
    hub: LocalHub, hub_files: dict[str, bytes], path: str, words: str
) -> None:
    hub.push(REPO, {"tokenizer.json": b"{}"} | hub_files)
    hub.faults.listed_paths["config.json"] = path
    with pytest.raises(RefusedError, match=words):
        Hub().listing(REPO, "main")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"size": None}, "gives no size for config.json"),
        ({"size": True}, "gives no size for config.json"),
        ({"size": -1}, "gives no size for config.json"),
        ({"oid": "main"}, "gives no hash for config.json"),
        ({"lfs": {"oid": "short", "size": 1, "pointerSize": 1}}, "gives no hash for config.json"),
    ],
)
def test_a_listing_without_size_or_hash_decides_nothing(
    hub: LocalHub, hub_files: dict[str, bytes], tmp_path: Path, changed: dict[str, object], words: str
) -> None:
    hub.push(REPO, hub_files)
    hub.faults.listed_as["config.json"] = changed
    with pytest.raises(CannotDecideError, match=words):
        resolve(REPO, tmp_path)


@pytest.mark.parametrize(
    ("what", "answer", "words"),
    [
        ("tree", {"error": "x"}, "did not answer with a list"),
        ("tree", ["x"], "did not answer with a list"),
        ("revision", {"id": REPO, "sha": "main", "siblings": []}, "resolved acme/tiny@main to 'main'"),
        ("revision", ["x"], "resolved acme/tiny@main to 'None'"),
    ],
)
def test_a_server_that_is_no_hub_decides_nothing(
    hub: LocalHub, hub_files: dict[str, bytes], tmp_path: Path, what: str, answer: object, words: str
) -> None:
    hub.push(REPO, hub_files)
    hub.faults.answer_instead[what] = answer
    with pytest.raises(CannotDecideError, match=words):
        resolve(REPO, tmp_path)


def test_a_listing_without_end_ends(
    hub: LocalHub, hub_files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = hub.push(REPO, hub_files)
    address = f"/api/models/{REPO}/tree/{commit}?cursor="
    hub.faults.next_page = f"{address}900"
    with pytest.raises(CannotDecideError, match="has no end"):
        Hub().listing(REPO, "main")
    hub.faults.answer_instead["tree"] = [{"type": "directory", "path": "a"}] * 40
    hub.faults.next_page = None
    monkeypatch.setattr("modelctl.model.hub.MAX_ENTRIES", 30)
    with pytest.raises(CannotDecideError, match="has no end"):
        Hub().listing(REPO, "main")


def test_a_listing_that_goes_on_elsewhere_decides_nothing(hub: LocalHub, hub_files: dict[str, bytes]) -> None:
    hub.push(REPO, hub_files)
    hub.faults.next_page = "http://hub.example.org/api/models/acme/tiny/tree/main"
    with pytest.raises(CannotDecideError, match=r"continues its listing at 'http://hub\.example\.org"):
        Hub().listing(REPO, "main")


def test_an_endless_answer_is_not_kept(
    hub: LocalHub, hub_files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.push(REPO, hub_files)
    monkeypatch.setattr("modelctl.model.hub.MAX_ANSWER_BYTES", 100)
    with pytest.raises(CannotDecideError, match="answers with more than"):
        Hub().listing(REPO, "main")


def test_a_commit_that_resolves_to_another_decides_nothing(
    hub: LocalHub, hub_files: dict[str, bytes], tmp_path: Path
) -> None:
    commit = hub.push(REPO, hub_files)
    hub.faults.answer_instead["revision"] = {"id": REPO, "sha": "0" * 40, "siblings": []}
    with pytest.raises(CannotDecideError, match="not that commit"):
        resolve(f"{REPO}@{commit}", tmp_path)


def test_a_malformed_id_and_offline_mode_have_their_own_words(
    hub: LocalHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="no Hub id"):
        resolve("acme/tiny--x", tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(CannotDecideError, match="HF_HUB_OFFLINE is set"):
        resolve(REPO, tmp_path)


def test_a_repository_without_a_model_is_refused_before_it_is_downloaded(hub: LocalHub, tmp_path: Path) -> None:
    hub.push(REPO, {"README.md": b"data only"})
    with pytest.raises(InputError, match="not a model repository"):
        resolve(REPO, tmp_path)
    assert not [line for line in hub.requests if "/resolve/" in line]
