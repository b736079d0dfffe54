"""What can go wrong, as one tree. Data lives on the class; text is for people.

    JobQueueError
    ├── InvalidArgument       a field of a request is wrong; ``violations`` says which
    ├── NotFound              no such job, queue or worker
    ├── AlreadyExists         the name or idempotency key is taken by something else
    ├── FailedPrecondition    it exists, but is in the wrong state for this
    ├── Aborted               it was moving while we looked; asking again may work
    ├── ResourceExhausted     a size or count limit of the service
    ├── Unavailable           a server or database cannot be reached now
    ├── DeadlineExceeded      the caller's time ran out
    ├── Unauthenticated       no valid credentials
    ├── PermissionDenied      valid credentials, not allowed
    ├── Internal              a fault of ours; never carries a stack trace to a caller
    ├── LeaseLost             the token no longer holds the job
    ├── SettingsError         settings that cannot work; ``faults`` lists all of them
    └── EmbeddedError         the embedded PostgreSQL cannot be started or joined

``code`` is the canonical gRPC status name, the same at every door; ``reason`` is the stable
UPPER_SNAKE word that programs test for.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One bad field: its path in the request (``jobs[3].payload``) and what is wrong with it."""

    field: str
    description: str


@dataclass(frozen=True, slots=True)
class Fault:
    """One bad setting: its key (``lease.duration_s``) and what is wrong with it.

    ``beside`` is the key of the setting that it does not go together with, if there is one.
    """

    key: str
    message: str
    beside: str = field(default="", compare=False)


class JobQueueError(Exception):
    """Base of every error this package raises on purpose."""

    code = "UNKNOWN"
    reason = "UNKNOWN"

    def __init__(self, message: str, *, reason: str | None = None) -> None:
        """Keep the message and, where it is sharper than the class's own, the reason."""
        super().__init__(message)
        self.message = message
        if reason is not None:
            self.reason = reason


class InvalidArgument(JobQueueError):
    """A request that can never work as sent."""

    code = "INVALID_ARGUMENT"
    reason = "INVALID_ARGUMENT"

    def __init__(self, violations: Sequence[FieldViolation]) -> None:
        """Say all bad fields at once."""
        self.violations = tuple(violations)
        super().__init__("; ".join(f"{v.field}: {v.description}" for v in self.violations))


class NotFound(JobQueueError):
    """Nothing of this kind has this name."""

    code = "NOT_FOUND"

    def __init__(self, kind: str, name: str, *, at: str = "") -> None:
        """``kind`` is job, queue or worker; ``at`` is the request field that named it."""
        self.kind = kind
        self.name = name
        where = f"{at}: " if at else ""
        super().__init__(f"{where}{kind} {name!r} not found", reason=f"{kind.upper()}_NOT_FOUND")


class AlreadyExists(JobQueueError):
    """The name or key is taken by something with other content."""

    code = "ALREADY_EXISTS"

    def __init__(
        self, kind: str, name: str, message: str, *, reason: str = "ALREADY_EXISTS"
    ) -> None:
        """``kind`` is queue or idempotency_key; ``name`` the taken name."""
        self.kind = kind
        self.name = name
        super().__init__(message, reason=reason)


class FailedPrecondition(JobQueueError):
    """The thing exists but is in a state that does not allow this."""

    code = "FAILED_PRECONDITION"
    reason = "FAILED_PRECONDITION"


class Aborted(JobQueueError):
    """The thing kept moving, or was held by a transaction, while we tried; try again."""

    code = "ABORTED"
    reason = "ABORTED"


class ResourceExhausted(JobQueueError):
    """Over a limit of the service rather than of one field."""

    code = "RESOURCE_EXHAUSTED"
    reason = "RESOURCE_EXHAUSTED"


class Unavailable(JobQueueError):
    """Cannot be reached now; nothing is known about the outcome of a write."""

    code = "UNAVAILABLE"
    reason = "UNAVAILABLE"


class DeadlineExceeded(JobQueueError):
    """The caller's time ran out before an answer."""

    code = "DEADLINE_EXCEEDED"
    reason = "DEADLINE_EXCEEDED"


class Unauthenticated(JobQueueError):
    """No credentials, or ones that are not valid."""

    code = "UNAUTHENTICATED"
    reason = "UNAUTHENTICATED"


class PermissionDenied(JobQueueError):
    """Known caller, not allowed."""

    code = "PERMISSION_DENIED"
    reason = "PERMISSION_DENIED"


class Internal(JobQueueError):
    """A fault of ours."""

    code = "INTERNAL"
    reason = "INTERNAL"


class LeaseLost(JobQueueError):
    """The token no longer holds the job; whatever was computed under it is void."""

    code = "FAILED_PRECONDITION"
    reason = "LEASE_LOST"

    def __init__(self, job: int, token: int) -> None:
        """``job`` is the internal key, ``token`` the fence that no longer matches."""
        self.job = job
        self.token = token
        super().__init__(f"lease {token} of job {job} is lost")


class SettingsError(JobQueueError):
    """Settings that cannot work. Lists every fault, not only the first."""

    code = "INVALID_ARGUMENT"
    reason = "BAD_SETTINGS"

    def __init__(self, faults: Sequence[Fault]) -> None:
        """``faults`` in the order of the keys."""
        self.faults = tuple(faults)
        super().__init__("; ".join(f"{f.key}: {f.message}" for f in self.faults))


class EmbeddedError(JobQueueError):
    """The embedded PostgreSQL cannot be started, joined or stopped; the message says why."""

    code = "UNAVAILABLE"
    reason = "EMBEDDED_POSTGRES"
