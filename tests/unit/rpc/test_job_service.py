"""What the service looks at before it does its work."""

from unittest.mock import Mock

import pytest
from google.protobuf.duration_pb2 import Duration

from jobqueue.domain.limits import Limits
from jobqueue.errors import InvalidArgument
from jobqueue.rpc import job_service
from jobqueue.rpc.job_service import JobService
from jobqueue.v1 import job_pb2
from jobqueue.v1 import job_service_pb2 as pb


async def test_the_jobs_of_a_call_are_counted_before_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading = Mock(side_effect=AssertionError("it was read"))
    monkeypatch.setattr(job_service, "read_columns", reading)
    service = JobService(Mock(), Mock(), Limits(batch_jobs=2))
    bad = job_pb2.JobSpec(queue="q", ttl=Duration(seconds=2**62))
    for count, fault in ((0, "jobs: must not be empty"), (3, "jobs: has more than 2 jobs")):
        with pytest.raises(InvalidArgument, match=fault):
            await service.SubmitJobs(pb.SubmitJobsRequest(jobs=[bad] * count), Mock())
