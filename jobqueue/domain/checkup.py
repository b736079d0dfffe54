"""What ``jq-ctl doctor`` looks at, and how it says what it found."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

EXAMPLES = 5
"""A finding names at most this many jobs."""


class Verdict(StrEnum):
    """How a check ended. Only FAIL makes the whole check-up fail."""

    OK = "ok"
    WARN = "warn"  # a promise is not broken, but may be soon
    FAIL = "fail"  # a promise is broken, or could not be proven
    SKIPPED = "skipped"  # too dear for a quick check-up


class Check(StrEnum):
    """Every check, in the order in which they run."""

    SETTINGS = "settings"
    SCHEMA = "schema"
    INDEXES = "indexes"
    PARTITIONS = "partitions"
    AUTOVACUUM = "autovacuum"
    TRANSACTIONS = "transactions"
    PREPARED = "prepared"
    CLOCKS = "clocks"
    CURSORS = "cursors"
    OVERDUE = "overdue"
    NUMBERS = "numbers"
    FIGURES = "figures"
    PLACES = "places"
    SEQUENCES = "sequences"
    TRANSITIONS = "transitions"
    STATUS = "status"
    KEYS = "keys"


ASKS = {
    Check.SETTINGS: "does PostgreSQL run as our promises need it",
    Check.SCHEMA: "is the schema at the revision of this version",
    Check.INDEXES: "are all indexes there and valid",
    Check.PARTITIONS: "are partitions of events made ahead and guarded against changes",
    Check.AUTOVACUUM: "does autovacuum reach our tables",
    Check.TRANSACTIONS: "is no transaction open for long",
    Check.PREPARED: "is no prepared transaction left behind",
    Check.CLOCKS: "do the clocks of workers agree with the database's",
    Check.CURSORS: "do the consumers of events keep up",
    Check.OVERDUE: "do reaper and scheduler work",
    Check.NUMBERS: "will no sequence give out a number again",
    Check.FIGURES: "are the figures of queues what the tables hold",
    Check.PLACES: "is each job in exactly one place, in its queue, and each place a job's",
    Check.SEQUENCES: "are the events of each job numbered without gaps",
    Check.TRANSITIONS: "are the transitions of each job legal, and one chain",
    Check.STATUS: "is each job where its last event says",
    Check.KEYS: "does each idempotency key have its job, and each job its key",
}
"""What each check asks."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found.

    ``examples`` are job ids where jobs are at fault, at most five; else names of what is.
    ``advice`` is empty when there is nothing to do.
    """

    check: str
    verdict: Verdict
    found: str
    examples: tuple[str, ...] = ()
    advice: str = ""


@dataclass(frozen=True, slots=True)
class CheckProgress:
    """How far a check that reads much has come: ``seen`` of about ``about``."""

    check: str
    seen: int
    about: int


def shown(names: Sequence[str]) -> tuple[str, ...]:
    """Return what a finding names of ``names``."""
    return tuple(names[:EXAMPLES])
