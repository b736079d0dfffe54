"""The database address, and what people are shown of it and of other settings."""

from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobqueue.config.describe import describe
from jobqueue.config.dsn import (
    database_dsn,
    has_password,
    holds_secret,
    ports_are_numbers,
    shown_url,
)
from jobqueue.config.load import load_settings
from jobqueue.config.model import DbSettings
from jobqueue.config.secret import MASK, Secret
from jobqueue.errors import SettingsError

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1)


def test_parts_become_a_url() -> None:
    db = DbSettings(host="db", port=6000, name="jobs", user="me", password=Secret("pw"))
    assert database_dsn(db) == "postgresql://me:pw@db:6000/jobs"


def test_a_folder_as_host_is_a_socket() -> None:
    db = DbSettings(host="/run/pg", user="me")
    assert database_dsn(db) == "postgresql://me@/jobqueue?host=/run/pg&port=5432"


def test_several_hosts_share_the_port_and_ipv6_is_bracketed() -> None:
    db = DbSettings(host="a,::1", user="me")
    assert database_dsn(db) == "postgresql://me@a:5432,[::1]:5432/jobqueue"


def test_ssl_options_complete_parts_and_url() -> None:
    db = DbSettings(sslmode="verify-full", ssl_root_cert="/ca.pem")
    wanted = "postgresql://jq_user@localhost:5432/jobqueue?sslmode=verify-full&sslrootcert=/ca.pem"
    assert database_dsn(db) == wanted


def test_a_url_keeps_its_own_ssl_mode() -> None:
    db = DbSettings(url=Secret("postgresql://h/d?sslmode=require"), sslmode="disable")
    assert database_dsn(db) == "postgresql://h/d?sslmode=require"


def test_a_url_is_used_as_it_is() -> None:
    url = "postgresql://me:p%40w@/jobs?host=/run/my pg"
    assert database_dsn(DbSettings(url=Secret(url))) == url


def test_a_password_completes_a_url_without_one() -> None:
    db = DbSettings(url=Secret("postgresql://me@h/d"), password=Secret("p&w"))
    assert database_dsn(db) == "postgresql://me@h/d?password=p%26w"


@given(TEXT, TEXT, TEXT)
def test_any_user_password_and_name_survive_the_url(user: str, password: str, name: str) -> None:
    parts = urlsplit(database_dsn(DbSettings(user=user, password=Secret(password), name=name)))
    login = unquote(parts.username or ""), unquote(parts.password or "")
    assert (*login, unquote(parts.path[1:])) == (user, password, name)


@given(TEXT)
def test_a_socket_folder_survives_the_url(folder: str) -> None:
    parts = urlsplit(database_dsn(DbSettings(host=f"/{folder}")))
    assert parse_qs(parts.query)["host"] == [f"/{folder}"]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:pw@h:1/d", f"postgresql://me:{MASK}@h:1/d"),
        ("postgresql://me:p@w@h/d", f"postgresql://me:{MASK}@h/d"),
        ("postgresql://h/d?user=a&password=pw", f"postgresql://h/d?user=a&password={MASK}"),
        ("postgresql://h/d?sslpassword=pw", f"postgresql://h/d?sslpassword={MASK}"),
        ("postgresql://me@h/d", "postgresql://me@h/d"),
    ],
)
def test_a_shown_url_hides_its_passwords(url: str, shown: str) -> None:
    assert shown_url(url) == shown
    assert holds_secret(url) == (MASK in shown)
    assert has_password(url) == (holds_secret(url) and "ssl" not in url)


@pytest.mark.parametrize("tail", ["12/pw@h/d", "12?pw@h/d", "12#pw@h/d"])
def test_a_url_that_its_password_splits_is_refused_and_not_shown(tail: str) -> None:
    with pytest.raises(SettingsError, match="%40") as caught:
        load_settings(flags={}, env={"JQ_DB_URL": f"postgresql://me:{tail}"}, path=None)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "possible"),
    [
        ("postgresql://h/d", True),
        ("postgresql://me:pw:9x@h:5432/d", True),
        ("postgresql://a:1,[::1]:65535,[::1],c/d", True),
        ("postgresql:///d?host=/run&port=5433", True),
        ("postgresql://h:word/d", False),
        ("postgresql://h:0/d", False),
        ("postgresql://a:1,b:65536/d", False),
        ("postgresql://[::1]:x/d", False),
        ("postgresql:///d?host=/run&port=x", False),
    ],
)
def test_a_port_of_a_url_is_a_number_that_a_port_can_be(url: str, *, possible: bool) -> None:
    settings = {"JQ_DB_URL": url}
    assert ports_are_numbers(url) is possible
    if possible:
        load_settings(flags={}, env=settings, path=None)
        return
    with pytest.raises(SettingsError) as caught:
        load_settings(flags={}, env=settings, path=None)
    assert [fault.key for fault in caught.value.faults] == ["db.url"]
    assert "pw" not in str(caught.value)


def test_a_description_shows_every_value_in_force_and_no_secret() -> None:
    env = {
        "JQ_DB_URL": "postgresql://me:hunter2@h/d",
        "JQ_REDIS_PASSWORD": "hunter2",
        "JQ_AUTH_API_KEYS": "app:submit:hunter2-hunter2-hunter2,me:work+submit:hunter3-hunter3-x",
        "JQ_WORKER_COMMANDS": '{"a": ["cat", "-"]}',
        "JQ_KAFKA_BROKERS": "k1:1,k2:2",
    }
    lines = describe(load_settings(flags={}, env=env, path=None).settings)
    assert "hunter" not in str(lines)
    assert lines["db.url"] == f"postgresql://me:{MASK}@h/d"
    assert lines["auth.api_keys"] == f"app:submit:{MASK},me:submit+work:{MASK}"
    assert lines["worker.commands"] == "a: cat -"
    assert lines["kafka.brokers"] == "k1:1,k2:2"
    assert lines["lease.duration_s"] == "30"
    assert lines["db.pgbouncer"] == "false"


def test_a_secret_shows_itself_only_when_asked() -> None:
    secret = Secret("hunter2")
    assert f"{secret} {secret!r} {[secret]}" == f"{MASK} {MASK} [{MASK}]"
    assert secret.reveal() == "hunter2"
