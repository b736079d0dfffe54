"""JobService: what applications and operators do with jobs."""

from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import grpc

from jobqueue.domain.job import CancelOutcome
from jobqueue.domain.limits import Limits, check_batch_size
from jobqueue.events.encode import event_message
from jobqueue.rpc.convert import (
    MAX_PAGE,
    job_message,
    read_columns,
    read_filter,
    read_job_id,
    read_page_size,
    read_request_id,
    read_spec,
)
from jobqueue.submission.jobs import Jobs
from jobqueue.submission.submitter import Submits
from jobqueue.v1 import job_service_pb2 as pb
from jobqueue.v1.job_service_pb2_grpc import JobServiceServicer

# Unused by our methods: the guard is the only one that answers through it.
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class JobService(JobServiceServicer):
    """Reads a request, asks the submission room, writes the answer. Errors pass to the guard."""

    def __init__(self, submitter: Submits, jobs: Jobs, limits: Limits) -> None:
        self._submitter = submitter
        self._jobs = jobs
        self._limits = limits

    async def SubmitJob(
        self, request: pb.SubmitJobRequest, context: Context
    ) -> pb.SubmitJobResponse:
        """Store one job."""
        request_id = read_request_id(request.request_id)
        made = await self._submitter.submit(read_spec(request.job), request_id)
        return pb.SubmitJobResponse(job_id=str(made.job_id), existing=made.existing)

    async def SubmitJobs(
        self, request: pb.SubmitJobsRequest, context: Context
    ) -> pb.SubmitJobsResponse:
        """Store all of the jobs or none."""
        request_id = read_request_id(request.request_id)
        # A message has room for more jobs than a second is enough to read.
        check_batch_size(len(request.jobs), self._limits)
        made = await self._submitter.submit_columns(read_columns(request.jobs), request_id)
        return pb.SubmitJobsResponse(
            job_ids=[str(job.job_id) for job in made],
            existing=[job.existing for job in made],
        )

    async def GetJob(self, request: pb.GetJobRequest, context: Context) -> pb.GetJobResponse:
        """Return one job."""
        job = await self._jobs.get(read_job_id(request.job_id))
        return pb.GetJobResponse(job=job_message(job))

    async def ListJobs(self, request: pb.ListJobsRequest, context: Context) -> pb.ListJobsResponse:
        """Return one page, newest first, without payloads and results."""
        size = read_page_size(request.page_size)
        wanted = read_filter(request, self._limits)
        if wanted is None:
            return pb.ListJobsResponse()
        page = await self._jobs.list(wanted, size, request.page_token)
        return pb.ListJobsResponse(
            jobs=[job_message(job, bodies=False) for job in page.jobs],
            next_page_token=page.next_page_token,
        )

    async def ListJobEvents(
        self, request: pb.ListJobEventsRequest, context: Context
    ) -> pb.ListJobEventsResponse:
        """Return one page of the transitions of a job; the largest unless a size is asked for."""
        size = read_page_size(request.page_size or MAX_PAGE)
        page = await self._jobs.events(read_job_id(request.job_id), size, request.page_token)
        return pb.ListJobEventsResponse(
            events=map(event_message, page.events), next_page_token=page.next_page_token
        )

    async def CancelJob(
        self, request: pb.CancelJobRequest, context: Context
    ) -> pb.CancelJobResponse:
        """Cancel a job; a running one only when asked to."""
        outcome = await self._jobs.cancel(read_job_id(request.job_id), running=request.running)
        return pb.CancelJobResponse(outcome=_OUTCOMES[outcome])

    async def RetryJob(self, request: pb.RetryJobRequest, context: Context) -> pb.RetryJobResponse:
        """Make a failed or dead job PENDING again."""
        job = await self._jobs.retry(read_job_id(request.job_id))
        return pb.RetryJobResponse(job=job_message(job))

    async def DeleteJob(
        self, request: pb.DeleteJobRequest, context: Context
    ) -> pb.DeleteJobResponse:
        """Delete a finished job."""
        await self._jobs.delete(read_job_id(request.job_id))
        return pb.DeleteJobResponse()

    async def WatchJob(
        self, request: pb.WatchJobRequest, context: Context
    ) -> AsyncIterator[pb.WatchJobResponse]:
        """Send the job now and after each change until it is terminal."""
        async for job in self._jobs.watch(read_job_id(request.job_id)):
            yield pb.WatchJobResponse(job=job_message(job))


_OUTCOMES = {
    CancelOutcome.CANCELLED: pb.CancelJobResponse.OUTCOME_CANCELLED,
    CancelOutcome.CANCEL_REQUESTED: pb.CancelJobResponse.OUTCOME_CANCEL_REQUESTED,
}
