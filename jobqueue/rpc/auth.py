"""Who calls: API keys and tokens, told apart in constant time (R-9.1)."""

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import jwt

from jobqueue.config.api_keys import ApiKey, Role
from jobqueue.config.secret import Secret
from jobqueue.errors import Unauthenticated

LEEWAY_S = 10
"""By so much the clock of whoever signs tokens may differ from ours."""

_ALGORITHMS = ("HS256",)
_BEARER = "bearer "


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent valid credentials."""

    name: str
    roles: frozenset[Role]

    def may(self, needed: Role) -> bool:
        """Say whether any of the roles is enough."""
        return any(role.covers(needed) for role in self.roles)


class Tokens:
    """Reads JSON Web Tokens that were signed with one secret (HS256)."""

    def __init__(self, secret: Secret, audience: str | None) -> None:
        self._secret = secret
        self._audience = audience

    def read(self, token: str) -> Caller:
        """Return whom a token names. Raises Unauthenticated unless it is valid now.

        It must expire. One for an audience is valid only where that audience is configured.
        """
        try:
            claims = jwt.decode(
                token,
                self._secret.reveal().encode(),
                algorithms=_ALGORITHMS,
                audience=self._audience,
                leeway=LEEWAY_S,
                options={"require": ["exp"] if self._audience is None else ["exp", "aud"]},
            )
        except jwt.ExpiredSignatureError as error:
            raise Unauthenticated("the token has expired", reason="TOKEN_EXPIRED") from error
        # The last two come from documents that no honest signer writes.
        except (jwt.PyJWTError, RecursionError, OverflowError) as error:
            raise _invalid() from error
        return Caller(str(claims.get("sub", "token")), _roles(claims.get("roles", [])))


class Authenticator:
    """Knows every key, and how to read tokens if those are accepted."""

    def __init__(self, keys: Iterable[ApiKey], tokens: Tokens | None) -> None:
        self._keys = [(_digest(key.key.reveal()), Caller(key.name, key.roles)) for key in keys]
        self._tokens = tokens

    def caller(self, metadata: Iterable[tuple[str, str | bytes]]) -> Caller:
        """Return who sent this metadata. Raises Unauthenticated, never saying what was sent."""
        credential = _credential(dict(metadata))
        return self._by_key(credential) or self._by_token(credential)

    def _by_key(self, credential: str) -> Caller | None:
        digest, found = _digest(credential), None
        for known, caller in self._keys:
            # All of them every time: how long it takes must not tell which one was close.
            if hmac.compare_digest(known, digest):
                found = caller
        return found

    def _by_token(self, credential: str) -> Caller:
        if self._tokens is None:
            raise _invalid()
        return self._tokens.read(credential)


def _credential(headers: dict[str, str | bytes]) -> str:
    said = headers.get("authorization")
    if said is None:
        said = headers.get("x-api-key")
    elif isinstance(said, str) and said.lower().startswith(_BEARER):
        said = said[len(_BEARER) :]
    else:
        raise Unauthenticated("authorization must be: Bearer KEY", reason="CREDENTIALS_INVALID")
    if not isinstance(said, str):
        raise Unauthenticated(
            "an API key or token is needed (authorization: Bearer …, or x-api-key)",
            reason="CREDENTIALS_MISSING",
        )
    return said.strip()


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _invalid() -> Unauthenticated:
    return Unauthenticated("the API key or token is not valid", reason="CREDENTIALS_INVALID")


def _roles(claim: object) -> frozenset[Role]:
    """Return those of our roles that a claim lists; it may list others, for other services."""
    words: Sequence[object] = claim if isinstance(claim, list) else []
    return frozenset(role for role in Role if role in words)
