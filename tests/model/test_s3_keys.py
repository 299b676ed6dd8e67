"""Keys come as pairs, from one place, in an order that is written down; no secret is in any text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from modelctl.errors import InputError
from modelctl.model.s3_keys import Keys, find_keys
from modelctl.settings import Store

SERVER = "http://127.0.0.1:9000"
MINIO = {"MINIO_ACCESS_KEY": "minio-id", "MINIO_SECRET_KEY": "minio-hush"}
AWS = {"AWS_ACCESS_KEY_ID": "aws-id", "AWS_SECRET_ACCESS_KEY": "aws-hush", "AWS_SESSION_TOKEN": "aws-token"}
CREDENTIALS = """\
[default]
aws_access_key_id = default-id
aws_secret_access_key = default-hush

[team]
aws_access_key_id = team-id
aws_secret_access_key = team-hush
aws_session_token = team-token
"""
CONFIG = """\
[profile team]
region = eu-central-1

[profile sso]
sso_start_url = https://example.org
region = eu-west-1
"""


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """The variables of a person with AWS's and mc's files."""
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(CREDENTIALS)
    (tmp_path / ".aws" / "config").write_text(CONFIG)
    (tmp_path / ".mc").mkdir()
    aliases = {
        "elsewhere": {"url": "http://127.0.0.1:9001", "accessKey": "no", "secretKey": "no"},
        "here": {"url": f"{SERVER}/", "accessKey": "mc-id", "secretKey": "mc-hush"},
    }
    (tmp_path / ".mc" / "config.json").write_text(json.dumps({"version": "10", "aliases": aliases}))
    return {"HOME": str(tmp_path)}


def found(environ: dict[str, str], **settings: str) -> Keys:
    return find_keys(Store.model_validate(settings), SERVER, environ)


def test_the_first_place_that_has_a_pair_wins(home: dict[str, str]) -> None:
    mc = {"MC_HOST_here": "http://env-id:env%2Fhush@127.0.0.1:9000"}
    own = {"access_key": "own-id", "secret_key": "own-hush"}
    everything = {**home, **MINIO, **AWS, **mc, "AWS_PROFILE": "team"}
    order = [("own-id", "own-hush", "the settings")]
    assert [_shown(found(everything, **own, profile="team"))] == order
    assert found(everything, profile="team").access_key == "team-id"
    steps = [
        ("minio-id", "minio-hush", MINIO), ("env-id", "env/hush", mc), ("aws-id", "aws-hush", AWS),
        ("team-id", "team-hush", {"AWS_PROFILE": ""}), ("mc-id", "mc-hush", {}),
    ]  # fmt: skip
    for access_key, secret_key, names in steps:
        keys = found(everything)
        assert (keys.access_key, keys.secret_key) == (access_key, secret_key)
        everything = {name: value for name, value in everything.items() if name not in names}
    Path(home["HOME"], ".mc", "config.json").unlink()
    assert found(home).access_key == "default-id"
    assert found({"HOME": "/nonexistent"}) == Keys()


def _shown(keys: Keys) -> tuple[str | None, str | None, str]:
    return keys.access_key, keys.secret_key, keys.origin


def test_a_profile_brings_its_token_and_region(home: dict[str, str]) -> None:
    keys = found({**home, "AWS_PROFILE": "team"})
    assert (keys.session_token, keys.region) == ("team-token", "eu-central-1")
    assert "profile team of" in keys.origin
    assert "hush" not in repr(keys)
    assert "token" not in repr(keys).replace("session_token", "")


def test_other_files_are_named_by_amazons_variables(tmp_path: Path, home: dict[str, str]) -> None:
    other = tmp_path / "other"
    other.write_text("[default]\naws_access_key_id=o\naws_secret_access_key=s\n")
    Path(home["HOME"], ".mc", "config.json").unlink()
    assert found({**home, "AWS_SHARED_CREDENTIALS_FILE": str(other)}).access_key == "o"


def test_a_region_that_belongs_to_other_keys_is_not_taken() -> None:
    assert found({**MINIO, "AWS_REGION": "eu-west-1"}).region is None
    assert found({**AWS, "AWS_REGION": "eu-west-1"}).region == "eu-west-1"


@pytest.mark.parametrize(
    ("environ", "settings", "words", "remedy"),
    [
        ({}, {"access_key": "own"}, "only half", "MODELCTL_STORE_SECRET_KEY"),
        ({}, {"secret_key": "hush"}, "only half", "MODELCTL_STORE_ACCESS_KEY"),
        ({"MINIO_ACCESS_KEY": "a"}, {}, "only half", "MINIO_SECRET_KEY"),
        ({"AWS_SECRET_ACCESS_KEY": "hush"}, {}, "only half", "AWS_ACCESS_KEY_ID"),
        ({"AWS_PROFILE": "teem"}, {}, "AWS_PROFILE: no profile teem", "there are: default, sso, team"),
        ({}, {"profile": "sso"}, "sso_start_url, which modelctl does not follow", "export-credentials --profile sso"),
    ],
)
def test_what_is_missing_is_named(
    home: dict[str, str], environ: dict[str, str], settings: dict[str, str], words: str, remedy: str
) -> None:
    with pytest.raises(InputError, match=words) as caught:
        found({**home, **environ}, **settings)
    assert remedy in str(caught.value.remedy)
    assert "hush" not in f"{caught.value.message}{caught.value.remedy}"


@pytest.mark.parametrize(("path", "text"), [(".mc/config.json", "{hush"), (".aws/credentials", "hush = 1\n[")])
def test_a_broken_file_is_named_without_its_text(home: dict[str, str], path: str, text: str) -> None:
    Path(home["HOME"], ".mc", "config.json").unlink()
    Path(home["HOME"], path).write_text(text)
    with pytest.raises(InputError) as caught:
        found(home)
    assert path.rpartition("/")[2] in caught.value.message
    assert "hush" not in caught.value.message


@pytest.mark.parametrize(
    "value",
    ["http://127.0.0.1:9001", "http://id:hush@127.0.0.1:9001", "id:hush@x", "http://id@127.0.0.1:9000", "h://@:x"],
)
def test_a_variable_of_mc_for_another_server_or_without_keys_is_passed_over(value: str) -> None:
    assert found({"MC_HOST_x": value}) == Keys()
