"""The one validator: what a name, a job, a batch or a policy may be (R-9.4).

Every door (gRPC, CLI, client, in process) calls these functions, so that one bad value gets one
answer everywhere. They return violations instead of raising, so that all are said at once.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from jobqueue.domain.backoff import MAX_DELAY_S
from jobqueue.domain.columns import NEVER_UNSAID, JobColumns
from jobqueue.domain.job import JobSpec
from jobqueue.domain.state import EVENT_TYPES
from jobqueue.domain.worker import WorkerFacts
from jobqueue.errors import FieldViolation, InvalidArgument

KIB, MIB = 1024, 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)
TRACE_ENTRIES, TRACE_BYTES = 32, 512
"""The latter is what W3C Trace Context asks every party to carry of a tracestate."""
WORDS_BYTES = 256
"""Of what a worker says of itself, its host and version, and of how far a job is."""
_MAX_EVENT_ID = 2**63
PRIORITY_NAMES = {"critical": 9, "high": 7, "normal": 5, "low": 1}
MAX_CONCURRENCY = 10_000
MAX_HELD = 2 * MAX_CONCURRENCY
"""Jobs that one remote worker holds: running, and as many prefetched."""
MAX_NAMES = 1_000
"""Of queues and of types that one worker serves."""
MAX_SHARE = 1_000_000
"""The highest max_running, and the highest weight of a priority."""
MOST_FAULTS = 100
"""That are told of one request; each of ten thousand jobs may have a dozen."""
MORE = FieldViolation("", "and more")
"""Stands last where there are more faults than are told."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes, counts, and seconds. The defaults are also the highest allowed values."""

    payload_bytes: int = MIB
    result_bytes: int = MIB
    error_bytes: int = 16 * KIB
    event_bytes: int = 64 * KIB
    batch_jobs: int = 10_000
    batch_bytes: int = 32 * MIB
    message_bytes: int = 36 * MIB
    name_length: int = 128
    key_bytes: int = 256
    labels: int = 32
    label_bytes: int = 256
    max_retries: int = 1_000
    delay_s: float = MAX_DELAY_S


def parse_priority(text: str) -> int:
    """Read ``0`` to ``9`` or a name (critical, high, normal, low). Raises ValueError otherwise."""
    value = PRIORITY_NAMES.get(text.strip().lower())
    if value is None:
        value = int(text) if re.fullmatch(r"\s*[0-9]\s*", text, re.ASCII) else -1
    if value < 0:
        names = ", ".join(PRIORITY_NAMES)
        raise ValueError(f"priority must be 0 to 9 or one of {names}, not {text!r}")
    return value


def name_faults(field: str, name: str, limits: Limits) -> Iterator[FieldViolation]:
    """Yield what is wrong with a queue name, job type or worker id."""
    if not name:
        yield FieldViolation(field, "must not be empty")
    elif len(name) > limits.name_length:
        yield FieldViolation(field, f"is longer than {limits.name_length} characters")
    elif not _NAME.fullmatch(name):
        yield FieldViolation(field, "may hold only letters, digits, '.', '_' and '-'")


def event_faults(
    ids: Iterable[int], types: Iterable[str], *, field: str
) -> Iterator[FieldViolation]:
    """Yield what is wrong with event ids, which ``field`` holds, and with event types."""
    if any(not 0 <= each < _MAX_EVENT_ID for each in ids):
        yield FieldViolation(field, "must be 0 or a positive number of 63 bits")
    known = sorted(set(EVENT_TYPES.values()))
    for unknown in sorted(set(types).difference(known)):
        yield FieldViolation("types", f"{unknown!r} is none of {', '.join(known)}")


def number_faults(
    field: str, value: float | None, low: float, high: float
) -> Iterator[FieldViolation]:
    """Yield a fault unless ``value`` is None or a finite number in [low, high]."""
    if value is not None and not low <= value <= high:  # NaN is nowhere between
        yield FieldViolation(field, f"must be between {low:.12g} and {high:.12g}")


def text_faults(field: str, text: str, max_bytes: int) -> Iterator[FieldViolation]:
    """Yield what keeps ``text`` from being stored: NUL, lone surrogates, too many bytes."""
    if "\x00" in text:
        yield FieldViolation(field, "must not contain NUL")
        return
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        yield FieldViolation(field, "is not valid Unicode (lone surrogate)")
        return
    if size > max_bytes:
        yield FieldViolation(field, f"is larger than {max_bytes} bytes")


def spec_faults(spec: JobSpec, limits: Limits, at: str = "job") -> Iterator[FieldViolation]:
    """Yield everything wrong with one submission; ``at`` prefixes the field paths."""
    for attribute, field, faults, _ in _RULES:
        value = getattr(spec, attribute)
        if value is not None or attribute in NEVER_UNSAID:
            yield from faults(f"{at}.{field}", value, limits)
    if spec.not_before is not None and spec.delay_s is not None:
        yield FieldViolation(f"{at}.not_before", "cannot be given together with delay")


def _payload_faults(field: str, payload: Any, limits: Limits) -> Iterator[FieldViolation]:
    if not isinstance(payload, bytes):
        yield FieldViolation(field, "must be bytes")
    elif len(payload) > limits.payload_bytes:
        yield FieldViolation(field, f"is larger than {limits.payload_bytes} bytes")


def _priority_faults(field: str, priority: int, _: Limits) -> Iterator[FieldViolation]:
    return number_faults(field, priority, 0, 9)


def _retries_faults(field: str, retries: int, limits: Limits) -> Iterator[FieldViolation]:
    return number_faults(field, retries, 0, limits.max_retries)


def _delay_faults(field: str, delay_s: float, limits: Limits) -> Iterator[FieldViolation]:
    return number_faults(field, delay_s, 0, limits.delay_s)


def _time_faults(field: str, seconds: float, limits: Limits) -> Iterator[FieldViolation]:
    return positive_faults(field, seconds, limits.delay_s)


def _instant_faults(field: str, at: datetime, _: Limits) -> Iterator[FieldViolation]:
    if at.tzinfo is None:
        yield FieldViolation(field, "needs a time zone")
        return
    try:  # near its ends the calendar of a far zone has times that UTC has not
        at.astimezone(UTC)
    except OverflowError:
        yield FieldViolation(field, "is outside the years 1 to 9999 in UTC")


def positive_faults(field: str, value: float | None, high: float) -> Iterator[FieldViolation]:
    """Yield a fault unless ``value`` is None or a number of seconds in (0, high]."""
    if value is not None and not 0 < value <= high:
        yield FieldViolation(field, f"must be more than 0 and at most {high:.12g} seconds")


def _key_faults(field: str, key: str, limits: Limits) -> Iterator[FieldViolation]:
    if not key:
        yield FieldViolation(field, "must not be empty")
    yield from text_faults(field, key, limits.key_bytes)


def _tenant_faults(field: str, tenant: str, limits: Limits) -> Iterator[FieldViolation]:
    return text_faults(field, tenant, limits.key_bytes)


def _label_faults(
    field: str, labels: Mapping[str, str], limits: Limits
) -> Iterator[FieldViolation]:
    return _map_faults(field, labels, limits.labels, limits.label_bytes)


def _trace_faults(field: str, trace: Mapping[str, str], _: Limits) -> Iterator[FieldViolation]:
    return _map_faults(field, trace, TRACE_ENTRIES, TRACE_BYTES)


def _map_faults(
    field: str, pairs: Mapping[str, str], most: int, max_bytes: int
) -> Iterator[FieldViolation]:
    if len(pairs) > most:
        yield FieldViolation(field, f"has more than {most} entries")
        return
    for key, value in sorted(pairs.items()):  # a map on the wire comes in any order
        if not key:
            yield FieldViolation(field, "has an empty key")
        yield from text_faults(f"{field} key", key, max_bytes)
        yield from text_faults(f"{field}[{key!r}]", value, max_bytes)


def _longest(payloads: Sequence[bytes]) -> Iterable[bytes]:
    return (max(payloads, key=len),)


def _filled(maps: Sequence[Mapping[str, str]]) -> Iterable[Mapping[str, str]]:
    return filter(None, maps)


_RULES: Sequence[
    tuple[
        str,
        str,
        Callable[[str, Any, Limits], Iterator[FieldViolation]],
        Callable[[Sequence[Any]], Iterable[Any]],
    ]
] = (
    ("queue", "queue", name_faults, set),
    ("type", "type", name_faults, set),
    ("payload", "payload", _payload_faults, _longest),
    ("priority", "priority", _priority_faults, set),
    ("max_retries", "max_retries", _retries_faults, set),
    ("delay_s", "delay", _delay_faults, set),
    ("ttl_s", "ttl", _time_faults, set),
    ("timeout_s", "run_timeout", _time_faults, set),
    ("not_before", "not_before", _instant_faults, set),
    ("idempotency_key", "idempotency_key", _key_faults, set),
    ("tenant", "tenant", _tenant_faults, set),
    ("labels", "labels", _label_faults, _filled),
    ("trace_context", "trace_context", _trace_faults, _filled),
)
"""Of each field: its attribute, its name in field paths, what is wrong with a value, and which
values of a column must be looked at so that all have been."""


def worker_faults(facts: WorkerFacts, limits: Limits) -> Iterator[FieldViolation]:
    """Yield everything wrong with what a remote worker says about itself."""
    yield from name_faults("worker_id", facts.worker_id, limits)
    if not facts.queues:
        yield FieldViolation("queues", "must not be empty")
    for field, names in (("queues", facts.queues), ("types", facts.types)):
        if len(names) > MAX_NAMES:
            yield FieldViolation(field, f"has more than {MAX_NAMES} entries")
            continue
        for i, name in enumerate(names):
            yield from name_faults(f"{field}[{i}]", name, limits)
    yield from number_faults("concurrency", facts.concurrency, 1, MAX_CONCURRENCY)
    yield from number_faults("prefetch", facts.prefetch, 0, MAX_CONCURRENCY)
    yield from number_faults("pid", facts.pid, 0, 2**31 - 1)
    for field, text in (("hostname", facts.hostname), ("version", facts.version)):
        yield from text_faults(field, text, WORDS_BYTES)


def count_faults(field: str, count: int) -> Iterator[FieldViolation]:
    """Yield a fault when a call names more leases than a worker can hold."""
    if count > MAX_HELD:
        yield FieldViolation(field, f"has more than {MAX_HELD} entries")


def policy_faults(fields: Mapping[str, Any], limits: Limits) -> Iterator[FieldViolation]:
    """Yield everything wrong with the named fields of a queue's policy (see ``PolicyChange``)."""
    yield from number_faults("policy.max_retries", fields.get("max_retries"), 0, limits.max_retries)
    yield from positive_faults("policy.ttl", fields.get("ttl_s"), limits.delay_s)
    base, longest = fields.get("base_delay_s"), fields.get("max_delay_s")
    yield from number_faults("policy.base_delay", base, 0, limits.delay_s)
    yield from number_faults("policy.max_delay", longest, 0, limits.delay_s)
    if base is not None and longest is not None and longest < base:
        yield FieldViolation("policy.max_delay", "must not be less than base_delay")
    yield from number_faults("policy.max_running", fields.get("max_running"), 1, MAX_SHARE)
    for priority, weight in (fields.get("priority_weights") or {}).items():
        at = f"policy.priority_weights[{priority}]"
        yield from number_faults(at, priority, 0, 9)
        yield from number_faults(at, weight, 1, MAX_SHARE)


def check(faults: Iterable[FieldViolation]) -> None:
    """Raise InvalidArgument when there is any fault; of many it tells the first, and ``MORE``."""
    found = list(islice(faults, MOST_FAULTS + 1))
    if len(found) > MOST_FAULTS:
        found[MOST_FAULTS:] = [MORE]
    if found:
        raise InvalidArgument(found)


def check_batch_size(jobs: int, limits: Limits) -> None:
    """Raise InvalidArgument unless a batch may have so many jobs, whatever they are."""
    if not jobs:
        raise InvalidArgument([FieldViolation("jobs", "must not be empty")])
    if jobs > limits.batch_jobs:
        raise InvalidArgument([FieldViolation("jobs", f"has more than {limits.batch_jobs} jobs")])


def check_batch(columns: JobColumns, limits: Limits) -> None:
    """Raise InvalidArgument unless the batch and every item of it is within the limits.

    Field paths name the index of the bad item: ``jobs[3].payload``.
    """
    check_batch_size(columns.size, limits)
    whole = all(isinstance(payload, bytes) for payload in columns.payload)
    if whole and sum(map(len, columns.payload)) > limits.batch_bytes:
        fault = f"payloads add up to more than {limits.batch_bytes} bytes"
        raise InvalidArgument([FieldViolation("jobs", fault)])
    if not whole or not _faultless(columns, limits):
        items = enumerate(columns.items())
        check(v for i, spec in items for v in spec_faults(spec, limits, f"jobs[{i}]"))


def _faultless(columns: JobColumns, limits: Limits) -> bool:
    """Tell whether every value is good; False also where only whole items can say it."""
    if columns.delay_s and columns.not_before:
        return False
    for attribute, field, faults, telling in _RULES:
        column = getattr(columns, attribute)
        for value in telling(column) if column else ():
            said = value is not None or attribute in NEVER_UNSAID
            if said and any(True for _ in faults(field, value, limits)):
                return False
    return True


def safe_text(text: str, max_bytes: int) -> str:
    """Return ``text`` as PostgreSQL can hold it, at most ``max_bytes`` of UTF-8.

    NUL and lone surrogates become U+FFFD; a cut text ends in `` … [truncated]`` when
    that fits.
    """
    whole = text.replace("\x00", "\ufffd").encode("utf-16", "surrogatepass")
    raw = whole.decode("utf-16", "replace").encode()
    if len(raw) <= max_bytes:
        return raw.decode()
    mark = " … [truncated]"
    room = max_bytes - len(mark.encode())
    if room <= 0:
        return raw[:max_bytes].decode(errors="ignore")
    return raw[:room].decode(errors="ignore") + mark
