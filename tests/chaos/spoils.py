"""Ways to spoil a history."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tests.chaos.history import Call, Event, History, Published, Run, Stop
from tests.chaos.stories import LEASE_S

Spoil = Callable[[History], History]


def event(job: str, seq: int, /, **changes: Any) -> Spoil:
    """Change one event, and what Kafka has of it."""

    def spoil(history: History) -> History:
        changed = [
            replace(e, **changes) if (e.job, e.seq) == (job, seq) else e for e in history.events
        ]
        assert changed != history.events
        return in_kafka_too(replace(history, events=changed))

    return spoil


def moved(job: str, seq: int, by_s: float) -> Spoil:
    def spoil(history: History) -> History:
        (at,) = [e.at for e in history.events if (e.job, e.seq) == (job, seq)]
        return event(job, seq, at=at + by_s)(history)

    return spoil


def no_event(job: str, seq: int) -> Spoil:
    return lambda h: in_kafka_too(
        replace(h, events=[e for e in h.events if (e.job, e.seq) != (job, seq)])
    )


def more_events(job: str, *moves: tuple[str, str, int | None]) -> Spoil:
    """Let the job go on: (status, reason, token) each, and its row with it."""

    def spoil(history: History) -> History:
        told = [e for e in history.events if e.job == job]
        for status, reason, token in moves:
            last = told[-1]
            told.append(
                Event(
                    last.eid + 1,
                    job,
                    last.seq + 1,
                    last.to_status,
                    status,
                    last.at + LEASE_S,
                    reason,
                    last.attempt + (status == "RUNNING"),
                    token,
                    "w" if status in ("ASSIGNED", "RUNNING") else None,
                )
            )
        others = [e for e in history.events if e.job != job]
        starts = sum(e.to_status == "RUNNING" for e in told)
        longer = replace(history, events=others + told)
        end = row(job, status=told[-1].to_status, seq=len(told), attempt=starts)
        return in_kafka_too(end(longer))

    return spoil


def row(job: str, /, **changes: Any) -> Spoil:
    def spoil(history: History) -> History:
        changed = [replace(r, **changes) if r.job == job else r for r in history.rows]
        assert changed != history.rows
        return replace(history, rows=changed)

    return spoil


def no_events(job: str) -> Spoil:
    return lambda h: in_kafka_too(replace(h, events=[e for e in h.events if e.job != job]))


def no_row(job: str) -> Spoil:
    return lambda h: replace(h, rows=[r for r in h.rows if r.job != job])


def one_more_row(like: str, **changes: Any) -> Spoil:
    def spoil(history: History) -> History:
        (model,) = [r for r in history.rows if r.job == like]
        told = [replace(e, job="twin", eid=e.eid + 9_000) for e in history.events if e.job == like]
        ran = [replace(r, job="twin", nonce="twin") for r in history.runs if r.job == like]
        twin = replace(model, job="twin", result="twin", **changes)
        return in_kafka_too(
            replace(
                history,
                rows=[*history.rows, twin],
                events=[*history.events, *told],
                runs=[*history.runs, *ran],
            )
        )

    return spoil


def one_more_call(*call: Any) -> Spoil:
    return lambda h: replace(h, calls=[*h.calls, Call(*call)])


def call(ref: str, /, **changes: Any) -> Spoil:
    def spoil(history: History) -> History:
        changed = [replace(c, **changes) if c.ref == ref else c for c in history.calls]
        assert changed != history.calls
        return replace(history, calls=changed)

    return spoil


def run(job: str, attempt: int, /, **changes: Any) -> Spoil:
    def spoil(history: History) -> History:
        changed = [
            replace(r, **changes) if (r.job, r.attempt) == (job, attempt) else r
            for r in history.runs
        ]
        assert changed != history.runs
        return replace(history, runs=changed)

    return spoil


def one_more_run(*run: Any) -> Spoil:
    return lambda h: replace(h, runs=[*h.runs, Run(*run)])


def no_run(job: str) -> Spoil:
    return lambda h: replace(h, runs=[r for r in h.runs if r.job != job])


def renewed(job: str, left_s: float) -> Spoil:
    """Let its first lease have been renewed, and have this long to last when it ended."""

    def spoil(history: History) -> History:
        held = history.by_job()[job].leases()[0]
        assert held.end
        assert held.claim.token
        return replace(history, promised={held.claim.token: held.end.at + left_s})

    return spoil


def stopped(*stops: Stop) -> Spoil:
    return lambda h: replace(h, stops=stops)


def alive(nonce: str) -> Spoil:
    return lambda h: replace(h, alive=[nonce])


def kafka(change: Callable[[list[Published]], Sequence[Published]]) -> Spoil:
    return lambda h: replace(h, published=change(list(h.published or ())))


def in_kafka_too(history: History) -> History:
    """Let the relay have sent what is on record, so that only the record is wrong."""
    told = [Published(e.eid, e.job, e.seq, e.to_status) for e in history.events]
    return replace(history, published=told)


def both(*spoils: Spoil) -> Spoil:
    def spoil(history: History) -> History:
        for each in spoils:
            history = each(history)
        return history

    return spoil
