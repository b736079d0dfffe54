"""What must be true of all jobs together: of calls, keys, limits and Kafka."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from tests.chaos.history import SLACK_S, Call, History, Row

Found = Iterator[tuple[str, str]]
"""Job and what was seen of it."""


def calls_have_their_jobs(history: History) -> Found:
    """I1: an answer names the job of its call, which is there; a call makes one job at most."""
    rows = {row.job: row for row in history.rows}
    made = Counter(row.ref for row in history.rows if row.ref)
    known = {call.ref for call in history.calls}
    for call in history.calls:
        row = rows.get(call.job or "")
        if call.job is not None and row is None:
            yield call.job, f"accepted ({call.ref}) and not there"
        # Who repeats a key gets the job that has it, whatever else it sent.
        if row is not None and row.ref != call.ref and (call.key is None or row.key != call.key):
            yield row.job, f"is the answer to {call.ref} and was submitted as {row.ref}"
        if made[call.ref] > 1:
            yield call.ref, f"{made[call.ref]} jobs of one call"
    for row in history.rows:
        if history.calls and row.ref not in known:
            yield row.job, f"nobody submitted {row.ref!r}"


def retries_are_those_that_were_sent(history: History) -> Found:
    """I6: a job may be retried as often as its caller, or else its queue, says."""
    for row, calls in _sent(history):
        sent = calls[0].max_retries
        allowed = history.rules.max_retries if sent is None else sent
        if row.max_retries != allowed:
            yield row.job, f"has {row.max_retries} retries, {allowed} were sent"


def dates_are_those_that_were_sent(history: History) -> Found:
    """I9: a job was made while its caller waited; its delay and its TTL are the caller's."""
    for row, calls in _sent(history):
        sent = calls[0]
        delay_s = None if row.not_before is None else row.not_before - row.created_at
        if not _same(delay_s, sent.delay_s):
            yield row.job, f"has a delay of {delay_s} s, {sent.delay_s} s were sent"
        if not _same(row.ttl_s, sent.ttl_s):
            yield row.job, f"has {row.ttl_s} s to live, {sent.ttl_s} s were sent"
        heard = min((call.heard_at for call in calls if call.heard_at), default=float("inf"))
        if not sent.sent_at - SLACK_S <= row.created_at <= heard + SLACK_S:
            yield row.job, f"was made at {row.created_at}, sent at {sent.sent_at}, heard of {heard}"


def keys_are_taken_once(history: History) -> Found:
    """I13: of one idempotency key there is one job, and every answer names it."""
    for key, times in Counter(row.key for row in history.rows if row.key).items():
        if times > 1:
            yield key, f"{times} jobs of one key"
    answers: dict[str, set[str]] = {}
    for call in history.calls:
        if call.key and call.job:
            answers.setdefault(call.key, set()).add(call.job)
    for key, jobs in answers.items():
        if len(jobs) > 1:
            yield key, f"answered with {len(jobs)} jobs"


def limits_hold(history: History) -> Found:
    """I14: of a queue with a limit never more is held than that."""
    for queue, limit in history.rules.max_running.items():
        most = most_held(history, queue)
        if most > limit:
            yield queue, f"{most} were held at once, {limit} may be"


def most_held(history: History, queue: str) -> int:
    """Return how many jobs of a queue were held at once, at most."""
    queues = {row.job: row.queue for row in history.rows}
    steps: list[tuple[float, int]] = []
    for tale in history.by_job().values():
        if queues.get(tale.job) == queue:
            for held in tale.leases():
                steps.append((held.claim.at, 1))
                steps.append((held.end.at if held.end else float("inf"), -1))
    return _most(steps)


def kafka_has_every_event(history: History) -> Found:
    """I11: what is in Kafka is what is on record, and the first deliveries of a job in order."""
    if history.published is None:
        return
    recorded = {event.eid: event for event in history.events}
    published = {each.eid for each in history.published}
    for eid in recorded.keys() - published:
        yield recorded[eid].job, f"event {eid} is not in Kafka"
    last: dict[str, int] = {}
    for each in history.published:
        event = recorded.get(each.eid)
        if event is None:
            yield each.job, f"event {each.eid} is in Kafka and not on record"
        elif (event.job, event.seq, event.to_status) != (each.job, each.seq, each.to_status):
            yield each.job, f"event {each.eid} says other things in Kafka"
        if each.seq > last.get(each.job, 0) + 1:
            yield each.job, f"sequence {each.seq} came first, {last.get(each.job, 0)} before it"
        last[each.job] = max(last.get(each.job, 0), each.seq)


OF_ALL: Sequence[tuple[str, Callable[[History], Found]]] = (
    ("I1", calls_have_their_jobs),
    ("I6", retries_are_those_that_were_sent),
    ("I9", dates_are_those_that_were_sent),
    ("I11", kafka_has_every_event),
    ("I13", keys_are_taken_once),
    ("I14", limits_hold),
)


_ROUNDED_S = 0.001
"""Messages count in nanoseconds, the database in microseconds."""


def _sent(history: History) -> Iterator[tuple[Row, Sequence[Call]]]:
    """Yield each job with the calls that sent it, of which a repeat sends the same."""
    calls: dict[str, list[Call]] = {}
    for call in history.calls:
        calls.setdefault(call.ref, []).append(call)
    return ((row, calls[row.ref]) for row in history.rows if row.ref in calls)


def _same(stored_s: float | None, sent_s: float | None) -> bool:
    if stored_s is None or sent_s is None:
        return stored_s is sent_s
    return abs(stored_s - sent_s) <= _ROUNDED_S


def _most(steps: Sequence[tuple[float, int]]) -> int:
    """Return the highest sum; what ends in an instant ends before what begins in it."""
    held = most = 0
    for _, step in sorted(steps):
        held += step
        most = max(most, held)
    return most
