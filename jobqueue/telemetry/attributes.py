"""What our spans say, in the words of OpenTelemetry's messaging conventions (v1.44).

Never a payload, a result or the text of an error: those may hold secrets.
"""

from opentelemetry.trace import Span, Status, StatusCode
from opentelemetry.util.types import AttributeValue

from jobqueue.domain.lease import LeasedJob
from jobqueue.domain.outcome import Completed, Failed, Outcome, Refused
from jobqueue.errors import JobQueueError

SYSTEM = "jobqueue"
MESSAGE_ID = "messaging.message.id"
BATCH_COUNT = "messaging.batch.message_count"
OUTCOME = "messaging.jobqueue.outcome"
EXISTING = "messaging.jobqueue.existing"
_ERROR = "error.type"
_NAME_LENGTH = 128


def operation(name: str, kind: str, queue: str | None) -> dict[str, AttributeValue]:
    """Return what every span says; ``queue`` None: several."""
    said: dict[str, AttributeValue] = {
        "messaging.system": SYSTEM,
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
    }
    if queue:
        # Not checked yet: a caller may send megabytes as a name.
        said["messaging.destination.name"] = queue[:_NAME_LENGTH]
    return said


def job_attributes(name: str, kind: str, job: LeasedJob, worker: str) -> dict[str, AttributeValue]:
    """Return what a worker's span says of its job."""
    said = operation(name, kind, job.queue) | {
        MESSAGE_ID: str(job.job_id),
        "messaging.client.id": worker,
        "messaging.message.body.size": len(job.payload),
        "messaging.jobqueue.attempt": job.attempt,
        "messaging.jobqueue.priority": job.priority,
    }
    return said | ({"messaging.jobqueue.type": job.type} if job.type else {})


def note_outcome(span: Span, outcome: Outcome | None) -> None:
    """Say how an attempt ended; a failure is an error of its span."""
    match outcome:
        case None:
            fail(span, "LEASE_LOST")
            return
        case Failed(_, reason):
            fail(span, reason)
        case Refused():
            fail(span, "REFUSED")
        case _:
            pass
    span.set_attribute(OUTCOME, outcome_word(outcome))


def outcome_word(outcome: Outcome) -> str:
    """Return an outcome as one word."""
    return "done" if isinstance(outcome, Completed) else type(outcome).__name__.lower()


def note_error(span: Span, error: BaseException) -> None:
    """Say what kind of error ended an operation."""
    fail(span, error.code if isinstance(error, JobQueueError) else type(error).__qualname__)


def fail(span: Span, kind: str) -> None:
    """Make a span one of an error."""
    span.set_attribute(_ERROR, kind)
    span.set_status(Status(StatusCode.ERROR))
