"""`jq-ctl` and a server that asks who is there; and secrets, which show up nowhere (R-9.1)."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import pytest
import pytest_asyncio

from tests.support.certificates import Authority, Pair, settings
from tests.support.postgres import Cluster
from tests.support.programs import ServerProgram, run_ctl

PLANTED = "hunter2"
APP_KEY, OPS_KEY = f"{PLANTED}-app-0123456789", f"{PLANTED}-ops-0123456789"
SECRET = f"{PLANTED}, a secret of thirty-two bytes"
PROTECTED = {
    "auth_api_keys": f"app:submit:{APP_KEY},ops:operate:{OPS_KEY}",
    "auth_jwt_secret": SECRET,
    # Configured and not reachable: what is said about it must not show it either.
    "kafka_sasl_password": PLANTED,
    "redis_password": PLANTED,
}


@dataclass(frozen=True)
class Guarded:
    """The server, what a client that may connect has, and a CA of somebody else."""

    dsn: str
    server: ServerProgram
    tls: dict[str, object]
    tls_settings: dict[str, str]
    stranger: Path

    def ctl(self, *arguments: str, **variables: Any) -> tuple[int, str, str]:
        """Run `jq-ctl` and return code, stdout and stderr."""
        ended = run_ctl(self.server.address, *arguments, **variables)
        return ended.returncode, ended.stdout.decode(), ended.stderr.decode()


@pytest_asyncio.fixture(scope="module")
async def guarded(pg: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Guarded]:
    folder, dsn = tmp_path_factory.mktemp("guarded"), await pg.create_database()
    authority, other = Authority(folder), Authority(folder, "other")
    given = settings(authority.server(), authority.path)
    tls_settings = {key.replace("__", "_"): value for key, value in given.items()}
    server = ServerProgram(dsn, folder, "--log-level", "trace", **PROTECTED, **tls_settings)
    try:
        tls = variables(authority, authority.issue("client"))
        yield Guarded(dsn, server.ready(), tls, tls_settings, other.path)
    finally:
        server.kill()
        await pg.drop_database(dsn)


def variables(authority: Authority, pair: Pair) -> dict[str, object]:
    return {"tls_ca": authority.path, "tls_cert": pair.cert, "tls_key": pair.key}


def token(lifetime_s: float) -> str:
    content = {"exp": time.time() + lifetime_s, "sub": "alice", "roles": ["submit"]}
    return jwt.encode(content, SECRET, algorithm="HS256")


def test_certificates_and_a_key_by_environment_let_an_operator_in(guarded: Guarded) -> None:
    code, out, err = guarded.ctl("queue", "list", **guarded.tls, api_key=OPS_KEY)
    assert (code, "default" in out, err) == (0, True, "")


def test_flags_do_the_same(guarded: Guarded) -> None:
    flags = ["--api-key", OPS_KEY]
    for name, value in guarded.tls.items():
        flags += [f"--{name.replace('_', '-')}", str(value)]
    assert guarded.ctl("queue", "list", *flags)[0] == 0


@pytest.mark.parametrize(
    ("credential", "arguments", "words"),
    [
        (None, ("queue", "list"), "an API key or token is needed"),
        ("wrong-key-0123456789", ("queue", "list"), "is not valid"),
        (APP_KEY, ("queue", "list"), "needs the role operate; app has submit"),
        (OPS_KEY, ("queue", "create", "mine"), "needs the role admin; ops has operate"),
    ],
)
def test_who_is_not_allowed_gets_6_and_the_reason(
    guarded: Guarded, credential: str | None, arguments: tuple[str, ...], words: str
) -> None:
    key = {} if credential is None else {"api_key": credential}
    code, _, err = guarded.ctl(*arguments, "--output", "json", **guarded.tls, **key)
    assert (code, words in err) == (6, True), err


def test_who_cannot_connect_gets_5_and_what_may_be_wrong(guarded: Guarded) -> None:
    submit = ("job", "cancel", "8c5c62a1-70f4-4a5c-9a3f-5a0f2c6d1e77")
    code, _, err = guarded.ctl(*submit, api_key=APP_KEY)
    assert (code, "it may want TLS" in err) == (5, True), err
    foreign = {**guarded.tls, "tls_ca": guarded.stranger}
    code, _, err = guarded.ctl(*submit, **foreign, api_key=APP_KEY)
    assert (code, "no CA that is trusted here" in err) == (5, True), err


def test_no_secret_shows_up_in_what_any_program_writes(guarded: Guarded, tmp_path: Path) -> None:
    signature = token(60).rpartition(".")[2]
    wrong = f"{PLANTED}-wrong-0123456789"
    written = []
    submit = ("job", "submit", "--queue", "default", "--payload", PLANTED)
    for credential, expected in ((token(60), 0), (wrong, 6), (APP_KEY, 6), (token(-60), 6)):
        arguments = ("status",) if credential == APP_KEY else submit
        code, out, err = guarded.ctl(*arguments, **guarded.tls, api_key=credential)
        assert code == expected
        written.append(out + err)
    for reason in ("CREDENTIALS_INVALID", "ROLE_MISSING", "TOKEN_EXPIRED"):
        assert reason in guarded.server.text()
    dry = ServerProgram(guarded.dsn, tmp_path, "--dry-run", **PROTECTED, **guarded.tls_settings)
    assert dry.ended() == 0
    assert "auth.api_keys = app:submit:********,ops:operate:********" in dry.text()
    short = f"app:submit:{PLANTED}"
    bad = ServerProgram(guarded.dsn, tmp_path, auth_api_keys=short, auth_jwt_secret=PLANTED)
    assert bad.ended() == 2
    assert "auth.api_keys: entry 1 must end with a key of at least 16" in bad.text()
    assert "auth.jwt_secret: must have at least 32 bytes" in bad.text()
    for text in (*written, guarded.server.text(), dry.text(), bad.text()):
        assert PLANTED not in text
        assert signature not in text


def test_a_dry_run_checks_the_certificate_files(guarded: Guarded, tmp_path: Path) -> None:
    swapped = {**guarded.tls_settings, "grpc_tls_key_path": str(tmp_path / "none.key")}
    checked = ServerProgram(guarded.dsn, tmp_path, "--dry-run", **swapped)
    assert checked.ended() == 2
    assert "jq-server: grpc.tls.key_path: cannot read" in checked.text()
