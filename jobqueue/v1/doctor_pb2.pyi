from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RunDoctorRequest(_message.Message):
    __slots__ = ("checks", "quick")
    CHECKS_FIELD_NUMBER: _ClassVar[int]
    QUICK_FIELD_NUMBER: _ClassVar[int]
    checks: _containers.RepeatedScalarFieldContainer[str]
    quick: bool
    def __init__(self, checks: _Optional[_Iterable[str]] = ..., quick: bool = ...) -> None: ...

class RunDoctorResponse(_message.Message):
    __slots__ = ("result", "progress")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    result: CheckResult
    progress: CheckProgress
    def __init__(self, result: _Optional[_Union[CheckResult, _Mapping]] = ..., progress: _Optional[_Union[CheckProgress, _Mapping]] = ...) -> None: ...

class CheckResult(_message.Message):
    __slots__ = ("check", "verdict", "found", "examples", "advice")
    class Verdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        VERDICT_UNSPECIFIED: _ClassVar[CheckResult.Verdict]
        VERDICT_OK: _ClassVar[CheckResult.Verdict]
        VERDICT_WARN: _ClassVar[CheckResult.Verdict]
        VERDICT_FAIL: _ClassVar[CheckResult.Verdict]
        VERDICT_SKIPPED: _ClassVar[CheckResult.Verdict]
    VERDICT_UNSPECIFIED: CheckResult.Verdict
    VERDICT_OK: CheckResult.Verdict
    VERDICT_WARN: CheckResult.Verdict
    VERDICT_FAIL: CheckResult.Verdict
    VERDICT_SKIPPED: CheckResult.Verdict
    CHECK_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    ADVICE_FIELD_NUMBER: _ClassVar[int]
    check: str
    verdict: CheckResult.Verdict
    found: str
    examples: _containers.RepeatedScalarFieldContainer[str]
    advice: str
    def __init__(self, check: _Optional[str] = ..., verdict: _Optional[_Union[CheckResult.Verdict, str]] = ..., found: _Optional[str] = ..., examples: _Optional[_Iterable[str]] = ..., advice: _Optional[str] = ...) -> None: ...

class CheckProgress(_message.Message):
    __slots__ = ("check", "seen", "about")
    CHECK_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    check: str
    seen: int
    about: int
    def __init__(self, check: _Optional[str] = ..., seen: _Optional[int] = ..., about: _Optional[int] = ...) -> None: ...
