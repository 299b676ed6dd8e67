from __future__ import annotations

import pytest

from modelctl.errors import InputError
from modelctl.rollout.published import parse_published, with_release
from tests.support.rollouts import DIGEST, NOTHING_PUBLISHED, a_release

EMPTY = NOTHING_PUBLISHED


def test_a_release_is_added_once_and_others_stay() -> None:
    text = with_release(with_release(EMPTY, a_release(version="1.0.0-rc.1")), a_release(name="a.b-c"))
    assert parse_published(text).releases == {"tiny@1.0.0-rc.1": DIGEST, "a.b-c@1.0.0": DIGEST}
    assert with_release(text, a_release(name="a.b-c")) == text


def test_a_list_that_someone_mangled_is_an_error() -> None:
    with pytest.raises(InputError, match="data"):
        with_release(EMPTY.replace("data: {}", "data: {tiny_1.0.0: latest}"), a_release())
