"""Faults as they are really made, each planted in the functions or statements of one database.

They say whether the machine sees anything at all: each breaks one promise, and must be found.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType

import pytest

from jobqueue.store import jobs, leases, queues, upkeep
from jobqueue.store.statements import statement
from tests.model.database import Database

_MODULES: tuple[ModuleType, ...] = (jobs, leases, queues, upkeep)


@dataclass(frozen=True, slots=True)
class Mutant:
    """``old`` becomes ``new`` in a function of the database, or in a statement that we send."""

    what: str
    where: str
    old: str
    new: str = ""
    quick: bool = False  # found within seconds, so every run looks for it

    @contextmanager
    def planted(self, database: Database) -> Iterator[None]:
        """Have the fault for the block. Raises AssertionError where there is nothing to change."""
        sound = self._text(database)
        assert self.old in sound, f"{self.where} has changed: it does not say {self.old!r}"
        broken = sound.replace(self.old, self.new)
        with pytest.MonkeyPatch.context() as patch:
            if self._is_function:
                database.execute(broken)
            else:
                _replace(patch, sound, broken)
            try:
                yield
            finally:
                if self._is_function:
                    database.execute(sound)

    @property
    def _is_function(self) -> bool:
        return self.where.endswith("()")

    def _text(self, database: Database) -> str:
        if self._is_function:
            return database.definition(self.where.removesuffix("()"))
        return statement(self.where)


def _replace(patch: pytest.MonkeyPatch, sound: str, broken: str) -> None:
    """Send other text wherever a module of the store sends this statement."""
    homes = [(m, name) for m in _MODULES for name, value in vars(m).items() if value == sound]
    assert homes, "nobody sends this statement"
    for module, name in homes:
        patch.setattr(module, name, broken)


MUTANTS = (
    Mutant("an end needs no token", "settle_leases()", "AND l.token = i.token"),
    Mutant("a completion needs no token", "complete_leases()", "AND l.token = i.token"),
    Mutant("a completion needs no start", "complete_leases()", "AND l.running"),
    Mutant(
        "a renewal needs no token",
        "renew_leases",
        "l.id = i.id AND l.token = i.token AND",
        "l.id = i.id AND",
    ),
    Mutant(
        "a renewal answers for every lease of the job",
        "renew_leases",
        "u.id = i.id AND u.token = i.token",
        "u.id = i.id",
    ),
    Mutant(
        "a start needs no token", "start_leases()", "AND l.token = i.token\n        WHERE", "WHERE"
    ),
    Mutant(
        "the newest comes first",
        "claim_jobs()",
        "ORDER BY r.ready_at, r.id",
        "ORDER BY r.ready_at DESC, r.id DESC",
        quick=True,
    ),
    Mutant(
        "what outlived its TTL is claimed",
        "claim_jobs()",
        "AND (r.expires_at IS NULL OR r.expires_at > clock_timestamp())",
    ),
    Mutant(
        "a TTL goes on after the start",
        "claim_jobs()",
        "CASE WHEN NOT running THEN expires_at END",
        "expires_at",
    ),
    Mutant("max_running is not counted", "count_leases", "count(*)", "0 * count(*)"),
    Mutant(
        "a retry costs nothing",
        "settle_leases()",
        "seq + 1, attempt, reason, priority, retries, crashes",
        "seq + 1, attempt, reason, priority, greatest(retries - 1, 0), crashes",
    ),
    Mutant(
        "a cancel request is forgotten",
        "settle_leases()",
        "CASE WHEN l.cancel_requested THEN 'DEAD' ELSE i.fate END",
        "i.fate",
    ),
    Mutant(
        "a job that is handed back has no second event",
        "settle_leases()",
        "WHERE d.fate IN ('DEAD', 'READY')",
        "WHERE d.fate = 'DEAD'",
        quick=True,
    ),
    Mutant(
        "what is handed back goes to the end of the line",
        "settle_leases()",
        "SELECT id, ready_at, ttl_expires_at, queue_id, seq + 2",
        "SELECT id, clock_timestamp(), ttl_expires_at, queue_id, seq + 2",
    ),
    Mutant(
        "the reaper's ends look like the worker's",
        "settle_leases()",
        "CASE WHEN p_worker IS NOT NULL THEN l.token END",
        "l.token",
    ),
    Mutant(
        "a new life counts its TTL from the submission",
        "retry_job()",
        "clock_timestamp() + make_interval(secs => j.ttl_s)",
        "j.created_at + make_interval(secs => j.ttl_s)",
    ),
    Mutant("a new life goes on counting attempts", "retry_job()", "0 AS attempt", "o.attempt"),
    Mutant("what runs is cancelled unasked", "cancel_job()", "IF p_running THEN", "IF true THEN"),
    Mutant(
        "a key stands for any content",
        "known_jobs()",
        "k.content_hash = i.hash",
        "true",
        quick=True,
    ),
    Mutant("a key outlives its job", "remove_finished()", "AND k.job_id = j.job_id", "AND false"),
    Mutant("figures keep what is deleted", "remove_finished()", "-count(*)", "0"),
    Mutant(
        "a retry that is due has no event",
        "promote_jobs",
        "FROM d WHERE failed",
        "FROM d WHERE false",
    ),
    Mutant("what is not due is promoted", "promote_jobs", "s.due_at <= now()", "true"),
    Mutant(
        "a late promotion costs a job its place",
        "promote_jobs",
        "SELECT id, due_at, expires_at",
        "SELECT id, now(), expires_at",
    ),
    Mutant("dead jobs are pruned", "prune_jobs", "NOT page.dead AND", quick=True),
    Mutant("young leases expire", "lock_expired_leases", "l.expires_at < now() AND"),
    Mutant(
        "a TTL ends late",
        "expire_jobs",
        "r.expires_at <= now()",
        "r.expires_at <= now() - interval '1 min'",
    ),
    Mutant(
        "queues with jobs are deleted",
        "delete_queue",
        "$2::bool OR NOT live.any",
        "$2::bool OR true",
    ),
    Mutant(
        "a roll counts twice",
        "roll_stats",
        "depth = q.depth + excluded.depth, entered",
        "depth = q.depth + 2 * excluded.depth, entered",
    ),
)
