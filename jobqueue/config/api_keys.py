"""API keys and the roles that they give: `NAME:ROLE[+ROLE…]:KEY`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from jobqueue.config.rules import TextList
from jobqueue.config.secret import MASK, Secret

LEAST_KEY_LENGTH = 16
_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)
# What a header can carry and a list in the environment does not split.
_KEY = re.compile(r"[!-+\--~]*", re.ASCII)


class Role(StrEnum):
    """What a caller may do. ADMIN covers all, OPERATE covers SUBMIT, WORK stands alone."""

    SUBMIT = "submit"
    WORK = "work"
    OPERATE = "operate"
    ADMIN = "admin"

    def covers(self, needed: "Role") -> bool:
        """Say whether this role is enough for what ``needed`` may do."""
        return needed in _COVERED[self]


_COVERED = {
    Role.SUBMIT: {Role.SUBMIT},
    Role.WORK: {Role.WORK},
    Role.OPERATE: {Role.OPERATE, Role.SUBMIT},
    Role.ADMIN: set(Role),
}


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key, who has it, and what they may do."""

    name: str
    roles: frozenset[Role]
    key: Secret = field(repr=False)

    def __str__(self) -> str:
        return f"{self.name}:{'+'.join(sorted(self.roles))}:{MASK}"


@dataclass(frozen=True, slots=True)
class ApiKeys:
    """Any number of keys; in the environment separated by commas. No refusal shows a key."""

    def read(self, raw: object) -> tuple[ApiKey, ...]:
        """Accept a list of text, or one text that is split."""
        try:
            entries = TextList().read(raw)
        except ValueError:
            # `from None`: the cause would print what was given.
            raise ValueError("must be a list of text") from None
        faults = list(_faults(entries))
        if faults:
            raise ValueError("; ".join(faults))
        return tuple(map(_key_of, entries))


def _faults(entries: tuple[str, ...]) -> Iterator[str]:
    seen: dict[str, int] = {}
    for number, entry in enumerate(entries, start=1):
        fault = _fault(entry)
        if fault:
            yield f"entry {number} {fault}"
            continue
        key = _parts(entry)[2]
        if key in seen:
            yield f"entries {seen[key]} and {number} have the same key"
        seen[key] = number


def _fault(entry: str) -> str | None:
    if entry.count(":") < 2:  # noqa: PLR2004 - between three parts
        return "must be NAME:ROLE[+ROLE]:KEY"
    name, roles, key = _parts(entry)
    if not _NAME.fullmatch(name):
        return "must begin with a name of letters, digits, dots, hyphens and underscores"
    if not set(roles.split("+")) <= set(Role):
        return f"must give roles out of {', '.join(Role)}, joined by +"
    if not _KEY.fullmatch(key) or len(key) < LEAST_KEY_LENGTH:
        return (
            f"must end with a key of at least {LEAST_KEY_LENGTH} printable ASCII characters"
            " without spaces and commas"
        )
    return None


def _parts(entry: str) -> tuple[str, str, str]:
    name, roles, key = entry.split(":", 2)
    return name, roles, key


def _key_of(entry: str) -> ApiKey:
    name, roles, key = _parts(entry)
    return ApiKey(name, frozenset(map(Role, roles.split("+"))), Secret(key))
