"""Findings of a check-up as messages."""

from jobqueue.domain.checkup import CheckProgress, Finding
from jobqueue.v1 import doctor_pb2 as pb


def step_message(step: CheckProgress | Finding) -> pb.RunDoctorResponse:
    """Return one step of a check-up as sent."""
    if isinstance(step, CheckProgress):
        progress = pb.CheckProgress(check=step.check, seen=step.seen, about=step.about)
        return pb.RunDoctorResponse(progress=progress)
    result = pb.CheckResult(
        check=step.check,
        verdict=f"VERDICT_{step.verdict.upper()}",
        found=step.found,
        examples=step.examples,
        advice=step.advice,
    )
    return pb.RunDoctorResponse(result=result)
