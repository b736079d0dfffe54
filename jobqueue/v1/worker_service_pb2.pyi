import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RegisterRequest(_message.Message):
    __slots__ = ("worker_id", "hostname", "pid", "queues", "types", "concurrency", "prefetch", "version")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    PREFETCH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    hostname: str
    pid: int
    queues: _containers.RepeatedScalarFieldContainer[str]
    types: _containers.RepeatedScalarFieldContainer[str]
    concurrency: int
    prefetch: int
    version: str
    def __init__(self, worker_id: _Optional[str] = ..., hostname: _Optional[str] = ..., pid: _Optional[int] = ..., queues: _Optional[_Iterable[str]] = ..., types: _Optional[_Iterable[str]] = ..., concurrency: _Optional[int] = ..., prefetch: _Optional[int] = ..., version: _Optional[str] = ...) -> None: ...

class RegisterResponse(_message.Message):
    __slots__ = ("session", "lease_duration", "renew_interval", "heartbeat_interval", "assignment_timeout", "max_result_bytes", "max_error_bytes", "max_message_bytes")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    LEASE_DURATION_FIELD_NUMBER: _ClassVar[int]
    RENEW_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    MAX_RESULT_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_ERROR_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    session: str
    lease_duration: _duration_pb2.Duration
    renew_interval: _duration_pb2.Duration
    heartbeat_interval: _duration_pb2.Duration
    assignment_timeout: _duration_pb2.Duration
    max_result_bytes: int
    max_error_bytes: int
    max_message_bytes: int
    def __init__(self, session: _Optional[str] = ..., lease_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., renew_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., heartbeat_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., assignment_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_result_bytes: _Optional[int] = ..., max_error_bytes: _Optional[int] = ..., max_message_bytes: _Optional[int] = ...) -> None: ...

class StreamJobsRequest(_message.Message):
    __slots__ = ("session", "held")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    session: str
    held: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, session: _Optional[str] = ..., held: _Optional[_Iterable[str]] = ...) -> None: ...

class StreamJobsResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: AssignedJob
    def __init__(self, job: _Optional[_Union[AssignedJob, _Mapping]] = ...) -> None: ...

class AssignedJob(_message.Message):
    __slots__ = ("lease", "job_id", "queue", "type", "payload", "priority", "attempt", "max_retries", "run_timeout", "labels", "trace_context")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class TraceContextEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LEASE_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    MAX_RETRIES_FIELD_NUMBER: _ClassVar[int]
    RUN_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    TRACE_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    lease: str
    job_id: str
    queue: str
    type: str
    payload: bytes
    priority: int
    attempt: int
    max_retries: int
    run_timeout: _duration_pb2.Duration
    labels: _containers.ScalarMap[str, str]
    trace_context: _containers.ScalarMap[str, str]
    def __init__(self, lease: _Optional[str] = ..., job_id: _Optional[str] = ..., queue: _Optional[str] = ..., type: _Optional[str] = ..., payload: _Optional[bytes] = ..., priority: _Optional[int] = ..., attempt: _Optional[int] = ..., max_retries: _Optional[int] = ..., run_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ..., trace_context: _Optional[_Mapping[str, str]] = ...) -> None: ...

class StartJobsRequest(_message.Message):
    __slots__ = ("session", "leases")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    session: str
    leases: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, session: _Optional[str] = ..., leases: _Optional[_Iterable[str]] = ...) -> None: ...

class StartJobsResponse(_message.Message):
    __slots__ = ("starts",)
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[StartJobsResponse.State]
        STATE_STARTED: _ClassVar[StartJobsResponse.State]
        STATE_LOST: _ClassVar[StartJobsResponse.State]
        STATE_EXPIRED: _ClassVar[StartJobsResponse.State]
    STATE_UNSPECIFIED: StartJobsResponse.State
    STATE_STARTED: StartJobsResponse.State
    STATE_LOST: StartJobsResponse.State
    STATE_EXPIRED: StartJobsResponse.State
    class Start(_message.Message):
        __slots__ = ("lease", "state")
        LEASE_FIELD_NUMBER: _ClassVar[int]
        STATE_FIELD_NUMBER: _ClassVar[int]
        lease: str
        state: StartJobsResponse.State
        def __init__(self, lease: _Optional[str] = ..., state: _Optional[_Union[StartJobsResponse.State, str]] = ...) -> None: ...
    STARTS_FIELD_NUMBER: _ClassVar[int]
    starts: _containers.RepeatedCompositeFieldContainer[StartJobsResponse.Start]
    def __init__(self, starts: _Optional[_Iterable[_Union[StartJobsResponse.Start, _Mapping]]] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("session", "draining", "leases", "watched", "clock")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    WATCHED_FIELD_NUMBER: _ClassVar[int]
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    session: str
    draining: bool
    leases: _containers.RepeatedScalarFieldContainer[str]
    watched: _containers.RepeatedScalarFieldContainer[str]
    clock: _timestamp_pb2.Timestamp
    def __init__(self, session: _Optional[str] = ..., draining: bool = ..., leases: _Optional[_Iterable[str]] = ..., watched: _Optional[_Iterable[str]] = ..., clock: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class HeartbeatResponse(_message.Message):
    __slots__ = ("command", "renewed", "busy", "lost", "cancelled")
    class Command(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        COMMAND_UNSPECIFIED: _ClassVar[HeartbeatResponse.Command]
        COMMAND_NONE: _ClassVar[HeartbeatResponse.Command]
        COMMAND_DRAIN: _ClassVar[HeartbeatResponse.Command]
        COMMAND_SHUTDOWN: _ClassVar[HeartbeatResponse.Command]
    COMMAND_UNSPECIFIED: HeartbeatResponse.Command
    COMMAND_NONE: HeartbeatResponse.Command
    COMMAND_DRAIN: HeartbeatResponse.Command
    COMMAND_SHUTDOWN: HeartbeatResponse.Command
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    RENEWED_FIELD_NUMBER: _ClassVar[int]
    BUSY_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    command: HeartbeatResponse.Command
    renewed: _containers.RepeatedScalarFieldContainer[str]
    busy: _containers.RepeatedScalarFieldContainer[str]
    lost: _containers.RepeatedScalarFieldContainer[str]
    cancelled: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, command: _Optional[_Union[HeartbeatResponse.Command, str]] = ..., renewed: _Optional[_Iterable[str]] = ..., busy: _Optional[_Iterable[str]] = ..., lost: _Optional[_Iterable[str]] = ..., cancelled: _Optional[_Iterable[str]] = ...) -> None: ...

class ReportResultsRequest(_message.Message):
    __slots__ = ("session", "results")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    session: str
    results: _containers.RepeatedCompositeFieldContainer[Result]
    def __init__(self, session: _Optional[str] = ..., results: _Optional[_Iterable[_Union[Result, _Mapping]]] = ...) -> None: ...

class Result(_message.Message):
    __slots__ = ("lease", "outcome", "result", "result_truncated", "detail", "delay")
    class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OUTCOME_UNSPECIFIED: _ClassVar[Result.Outcome]
        OUTCOME_DONE: _ClassVar[Result.Outcome]
        OUTCOME_FAILED: _ClassVar[Result.Outcome]
        OUTCOME_TIMED_OUT: _ClassVar[Result.Outcome]
        OUTCOME_RETRY_LATER: _ClassVar[Result.Outcome]
        OUTCOME_REFUSED: _ClassVar[Result.Outcome]
        OUTCOME_CANCELLED: _ClassVar[Result.Outcome]
        OUTCOME_NO_HANDLER: _ClassVar[Result.Outcome]
        OUTCOME_RELEASED: _ClassVar[Result.Outcome]
    OUTCOME_UNSPECIFIED: Result.Outcome
    OUTCOME_DONE: Result.Outcome
    OUTCOME_FAILED: Result.Outcome
    OUTCOME_TIMED_OUT: Result.Outcome
    OUTCOME_RETRY_LATER: Result.Outcome
    OUTCOME_REFUSED: Result.Outcome
    OUTCOME_CANCELLED: Result.Outcome
    OUTCOME_NO_HANDLER: Result.Outcome
    OUTCOME_RELEASED: Result.Outcome
    LEASE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    RESULT_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    lease: str
    outcome: Result.Outcome
    result: bytes
    result_truncated: bool
    detail: str
    delay: _duration_pb2.Duration
    def __init__(self, lease: _Optional[str] = ..., outcome: _Optional[_Union[Result.Outcome, str]] = ..., result: _Optional[bytes] = ..., result_truncated: bool = ..., detail: _Optional[str] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ReportResultsResponse(_message.Message):
    __slots__ = ("reports",)
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[ReportResultsResponse.State]
        STATE_SETTLED: _ClassVar[ReportResultsResponse.State]
        STATE_LOST: _ClassVar[ReportResultsResponse.State]
        STATE_NOT_STARTED: _ClassVar[ReportResultsResponse.State]
    STATE_UNSPECIFIED: ReportResultsResponse.State
    STATE_SETTLED: ReportResultsResponse.State
    STATE_LOST: ReportResultsResponse.State
    STATE_NOT_STARTED: ReportResultsResponse.State
    class Report(_message.Message):
        __slots__ = ("lease", "state")
        LEASE_FIELD_NUMBER: _ClassVar[int]
        STATE_FIELD_NUMBER: _ClassVar[int]
        lease: str
        state: ReportResultsResponse.State
        def __init__(self, lease: _Optional[str] = ..., state: _Optional[_Union[ReportResultsResponse.State, str]] = ...) -> None: ...
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    reports: _containers.RepeatedCompositeFieldContainer[ReportResultsResponse.Report]
    def __init__(self, reports: _Optional[_Iterable[_Union[ReportResultsResponse.Report, _Mapping]]] = ...) -> None: ...

class ReportProgressRequest(_message.Message):
    __slots__ = ("session", "progress")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    session: str
    progress: _containers.RepeatedCompositeFieldContainer[Progress]
    def __init__(self, session: _Optional[str] = ..., progress: _Optional[_Iterable[_Union[Progress, _Mapping]]] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("lease", "percent", "message")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    PERCENT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    lease: str
    percent: int
    message: str
    def __init__(self, lease: _Optional[str] = ..., percent: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class ReportProgressResponse(_message.Message):
    __slots__ = ("lost",)
    LOST_FIELD_NUMBER: _ClassVar[int]
    lost: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, lost: _Optional[_Iterable[str]] = ...) -> None: ...

class ReleaseJobsRequest(_message.Message):
    __slots__ = ("session", "leases", "strays", "held")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    STRAYS_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    session: str
    leases: _containers.RepeatedScalarFieldContainer[str]
    strays: bool
    held: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, session: _Optional[str] = ..., leases: _Optional[_Iterable[str]] = ..., strays: bool = ..., held: _Optional[_Iterable[str]] = ...) -> None: ...

class ReleaseJobsResponse(_message.Message):
    __slots__ = ("released",)
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    released: int
    def __init__(self, released: _Optional[int] = ...) -> None: ...

class DeregisterRequest(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: str
    def __init__(self, session: _Optional[str] = ...) -> None: ...

class DeregisterResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
