"""Who a caller is: by key, or by token."""

import base64
import hmac
import time
from typing import Any

import jwt
import pytest

from jobqueue.config.api_keys import ApiKeys, Role
from jobqueue.config.secret import Secret
from jobqueue.errors import Unauthenticated
from jobqueue.rpc import auth
from jobqueue.rpc.auth import LEEWAY_S, Authenticator, Caller, Tokens

SECRET = "a secret of thirty-two bytes, or so"
KEYS = {name: f"{name}-key-0123456789" for name in ("app", "ops", "last")}
LATER = 4_000_000_000
"""An expiry that a token made when tests are collected does not reach before its test runs."""

ENTRIES = [f"app:submit:{KEYS['app']}", f"ops:operate:{KEYS['ops']}", f"last:work:{KEYS['last']}"]


def authenticator(audience: str | None = None, *, tokens: bool = True) -> Authenticator:
    reader = Tokens(Secret(SECRET), audience) if tokens else None
    return Authenticator(ApiKeys().read(ENTRIES), reader)


def bearer(credential: str) -> list[tuple[str, str | bytes]]:
    return [("user-agent", "x"), ("authorization", f"Bearer {credential}")]


def token(secret: str = SECRET, algorithm: str = "HS256", **claims: Any) -> str:
    content = {"exp": LATER, "roles": ["submit"], "sub": "alice", **claims}
    stated = {name: value for name, value in content.items() if value is not None}
    return jwt.encode(stated, secret, algorithm=algorithm)


def refusal(credential: str, audience: str | None = None) -> Unauthenticated:
    with pytest.raises(Unauthenticated) as caught:
        authenticator(audience).caller(bearer(credential))
    assert credential not in str(caught.value)
    return caught.value


def test_a_key_is_known_in_either_header() -> None:
    expected = Caller("ops", frozenset({Role.OPERATE}))
    assert authenticator().caller(bearer(KEYS["ops"])) == expected
    assert authenticator().caller([("x-api-key", KEYS["ops"])]) == expected
    assert authenticator().caller([("authorization", f"bEARER  {KEYS['ops']} ")]) == expected


@pytest.mark.parametrize("wrong", ["", "x", KEYS["ops"][:-1], KEYS["ops"] + "x", "ä"])
def test_a_wrong_key_is_unknown(wrong: str) -> None:
    refused = refusal(wrong) if wrong else None
    assert refused is None or refused.reason == "CREDENTIALS_INVALID"
    with pytest.raises(Unauthenticated):
        authenticator(tokens=False).caller(bearer(wrong))


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ([], "CREDENTIALS_MISSING"),
        ([("x-api-key", b"bytes")], "CREDENTIALS_MISSING"),
        ([("authorization", "Basic YTpi")], "CREDENTIALS_INVALID"),
        ([("authorization", KEYS["ops"])], "CREDENTIALS_INVALID"),
        ([("authorization", b"Bearer x")], "CREDENTIALS_INVALID"),
    ],
)
def test_other_headers_are_no_credentials(
    headers: list[tuple[str, str | bytes]], reason: str
) -> None:
    with pytest.raises(Unauthenticated) as caught:
        authenticator().caller(headers)
    assert caught.value.reason == reason


@pytest.mark.parametrize("sent", [KEYS["app"], KEYS["last"], "nobody's"])
def test_every_key_is_compared_in_constant_time_whichever_was_sent(
    sent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return hmac.compare_digest(one, other)

    class Recording:
        compare_digest = staticmethod(compare)

    monkeypatch.setattr(auth, "hmac", Recording)
    authenticator(tokens=False)._by_key(sent)
    assert len(compared) == len(KEYS)
    assert {len(part) for pair in compared for part in pair} == {32}


def test_a_token_names_its_bearer_and_those_roles_that_are_ours() -> None:
    roles = ["submit", "operate", "editor", 7]
    caller = authenticator().caller(bearer(token(roles=roles)))
    assert caller == Caller("alice", frozenset({Role.SUBMIT, Role.OPERATE}))


@pytest.mark.parametrize("roles", [None, [], "admin", {"admin": 1}, ["root"]])
def test_a_token_without_a_list_of_our_roles_may_do_nothing(roles: object) -> None:
    assert authenticator().caller(bearer(token(roles=roles))).roles == frozenset()


def test_a_token_need_not_name_its_bearer() -> None:
    assert authenticator().caller(bearer(token(sub=None))).name == "token"


def test_a_clock_may_differ_by_the_leeway_and_no_more() -> None:
    late = token(exp=time.time() - LEEWAY_S / 2)
    assert authenticator().caller(bearer(late)).name == "alice"
    early = token(nbf=time.time() + LEEWAY_S / 2)
    assert authenticator().caller(bearer(early)).name == "alice"
    assert refusal(token(exp=time.time() - 3 * LEEWAY_S)).reason == "TOKEN_EXPIRED"
    assert refusal(token(nbf=time.time() + 600)).reason == "CREDENTIALS_INVALID"


def unsigned() -> str:
    return jwt.encode({"exp": LATER, "roles": ["admin"]}, "", algorithm="none")


def nested() -> str:
    header = base64.urlsafe_b64encode(b'{"alg":' + b"[" * 3000).decode().rstrip("=")
    return f"{header}.e30.c2ln"


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param(token(secret="another secret of thirty-two bytes"), id="another secret"),
        pytest.param(token(algorithm="HS512", secret=SECRET * 2), id="another algorithm"),
        pytest.param(unsigned(), id="no algorithm"),
        pytest.param(token(exp=None), id="no expiry"),
        pytest.param(token(exp="soon"), id="no number"),
        pytest.param(token(exp=float("inf")), id="never"),
        pytest.param(token(aud="elsewhere"), id="for somebody else"),
        pytest.param(token()[:-2], id="cut short"),
        pytest.param("a.b.c", id="nonsense"),
        pytest.param(nested(), id="too deep"),
    ],
)
def test_a_token_that_is_not_ours_is_not_valid(forged: str) -> None:
    assert refusal(forged).reason == "CREDENTIALS_INVALID"


def test_an_audience_that_is_configured_is_required() -> None:
    meant = bearer(token(aud=["jobqueue", "other"]))
    assert authenticator("jobqueue").caller(meant).name == "alice"
    assert refusal(token(), "jobqueue").reason == "CREDENTIALS_INVALID"
    assert refusal(token(aud="other"), "jobqueue").reason == "CREDENTIALS_INVALID"


def test_without_a_secret_no_token_is_valid() -> None:
    with pytest.raises(Unauthenticated):
        authenticator(tokens=False).caller(bearer(token()))
