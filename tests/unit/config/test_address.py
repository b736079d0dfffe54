import pytest

from jobqueue.config.address import split_address
from jobqueue.config.load import load_settings
from jobqueue.errors import SettingsError


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("redis:6379", ("redis", 6379)),
        (" 10.0.0.1:1 ", ("10.0.0.1", 1)),
        ("[::1]:65535", ("::1", 65_535)),
    ],
)
def test_an_address_is_host_and_port(text: str, parts: tuple[str, int]) -> None:
    assert split_address(text) == parts


@pytest.mark.parametrize(
    "text",
    [
        "redis",
        "redis:",
        ":6379",
        "redis:0",
        "redis:65536",
        "redis:٣",
        "::1:6379",
        "[::1]",
        "[]:1",
        "redis://me:hunter2@redis:6379",
        "me:hunter2@redis:6379",
        "/run/redis.sock",
        "a b:1",
    ],
)
def test_what_is_no_address_is_refused_by_its_key_and_not_repeated(text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(flags={}, env={"JQ_REDIS_ADDR": text}, path=None)
    assert [(f.key, f.message) for f in caught.value.faults] == [
        ("redis.addr", "must be HOST:PORT")
    ]
