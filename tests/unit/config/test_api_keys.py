"""API keys as they are configured: who, which roles, which key."""

import pytest

from jobqueue.config.api_keys import ApiKey, ApiKeys, Role
from jobqueue.config.secret import Secret

KEY = "0123456789abcdef"


def test_an_entry_is_a_name_roles_and_a_key_that_may_hold_colons() -> None:
    read = ApiKeys().read(f"app:submit:{KEY}, ops.1:operate+work:{KEY}:x")
    assert read == (
        ApiKey("app", frozenset({Role.SUBMIT}), Secret(KEY)),
        ApiKey("ops.1", frozenset({Role.OPERATE, Role.WORK}), Secret(f"{KEY}:x")),
    )


def test_one_name_may_have_two_keys_so_that_one_can_be_replaced() -> None:
    names = [key.name for key in ApiKeys().read([f"app:submit:{KEY}", f"app:submit:{KEY}2"])]
    assert names == ["app", "app"]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (KEY, "must be NAME:ROLE"),
        (f"submit:{KEY}", "must be NAME:ROLE"),
        (f":submit:{KEY}", "must begin with a name"),
        (f"a b:submit:{KEY}", "must begin with a name"),
        (f"app:root:{KEY}", "must give roles out of submit, work, operate, admin"),
        (f"app:submit+:{KEY}", "must give roles out of"),
        (f"app::{KEY}", "must give roles out of"),
        (f"app:submit:{KEY[:-1]}", "at least 16"),
        (f"app:submit:{KEY} {KEY}", "without spaces"),
        (f"app:submit:{KEY}é", "ASCII"),
    ],
)
def test_a_wrong_entry_is_told_by_its_number_and_not_shown(entry: str, words: str) -> None:
    with pytest.raises(ValueError, match="entry 2") as caught:
        ApiKeys().read([f"first:admin:{KEY}-1", entry])
    assert words in str(caught.value)
    assert KEY[:-1] not in str(caught.value)


def test_all_wrong_entries_are_told() -> None:
    with pytest.raises(ValueError, match=r"entry 1 .*; entry 2 "):
        ApiKeys().read("a,b")


def test_one_key_cannot_belong_to_two() -> None:
    with pytest.raises(ValueError, match="entries 1 and 2 have the same key"):
        ApiKeys().read([f"a:submit:{KEY}", f"b:admin:{KEY}"])


def test_an_entry_shows_all_but_its_key() -> None:
    (key,) = ApiKeys().read(f"app:work+submit:{KEY}")
    assert str(key) == "app:submit+work:********"
    assert KEY not in repr(key)


COVERED = {
    Role.SUBMIT: {Role.SUBMIT},
    Role.WORK: {Role.WORK},
    Role.OPERATE: {Role.SUBMIT, Role.OPERATE},
    Role.ADMIN: {Role.SUBMIT, Role.WORK, Role.OPERATE, Role.ADMIN},
}


@pytest.mark.parametrize("role", Role)
def test_a_role_covers_itself_and_what_is_below_it(role: Role) -> None:
    assert {needed for needed in Role if role.covers(needed)} == COVERED[role]
