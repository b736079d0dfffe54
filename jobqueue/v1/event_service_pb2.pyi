import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from jobqueue.v1 import job_pb2 as _job_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TailEventsRequest(_message.Message):
    __slots__ = ("queue", "types", "follow", "after_event_id", "places", "place")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    AFTER_EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    queue: str
    types: _containers.RepeatedScalarFieldContainer[str]
    follow: bool
    after_event_id: int
    places: bool
    place: str
    def __init__(self, queue: _Optional[str] = ..., types: _Optional[_Iterable[str]] = ..., follow: bool = ..., after_event_id: _Optional[int] = ..., places: bool = ..., place: _Optional[str] = ...) -> None: ...

class TailEventsResponse(_message.Message):
    __slots__ = ("event", "place")
    EVENT_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    event: _job_pb2.JobEvent
    place: str
    def __init__(self, event: _Optional[_Union[_job_pb2.JobEvent, _Mapping]] = ..., place: _Optional[str] = ...) -> None: ...

class ListParkedEventsRequest(_message.Message):
    __slots__ = ("page_size", "after_event_id")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    AFTER_EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    after_event_id: int
    def __init__(self, page_size: _Optional[int] = ..., after_event_id: _Optional[int] = ...) -> None: ...

class ParkedEvent(_message.Message):
    __slots__ = ("event", "cause", "parked_at", "resending")
    EVENT_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    PARKED_AT_FIELD_NUMBER: _ClassVar[int]
    RESENDING_FIELD_NUMBER: _ClassVar[int]
    event: _job_pb2.JobEvent
    cause: str
    parked_at: _timestamp_pb2.Timestamp
    resending: bool
    def __init__(self, event: _Optional[_Union[_job_pb2.JobEvent, _Mapping]] = ..., cause: _Optional[str] = ..., parked_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., resending: bool = ...) -> None: ...

class ListParkedEventsResponse(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[ParkedEvent]
    def __init__(self, events: _Optional[_Iterable[_Union[ParkedEvent, _Mapping]]] = ...) -> None: ...

class ResendParkedEventsRequest(_message.Message):
    __slots__ = ("event_ids", "all")
    EVENT_IDS_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    event_ids: _containers.RepeatedScalarFieldContainer[int]
    all: bool
    def __init__(self, event_ids: _Optional[_Iterable[int]] = ..., all: bool = ...) -> None: ...

class ResendParkedEventsResponse(_message.Message):
    __slots__ = ("count",)
    COUNT_FIELD_NUMBER: _ClassVar[int]
    count: int
    def __init__(self, count: _Optional[int] = ...) -> None: ...

class DisconnectKafkaRequest(_message.Message):
    __slots__ = ("force",)
    FORCE_FIELD_NUMBER: _ClassVar[int]
    force: bool
    def __init__(self, force: bool = ...) -> None: ...

class DisconnectKafkaResponse(_message.Message):
    __slots__ = ("count",)
    COUNT_FIELD_NUMBER: _ClassVar[int]
    count: int
    def __init__(self, count: _Optional[int] = ...) -> None: ...
