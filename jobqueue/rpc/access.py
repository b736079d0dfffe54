"""Which role each method needs (R-9.1). A method that is not in the table is open to nobody."""

from collections.abc import Mapping

from jobqueue.config.api_keys import Role

_JOBS, _ADMIN = "/jobqueue.v1.JobService/", "/jobqueue.v1.AdminService/"
_EVENTS = "/jobqueue.v1.EventService/"

_METHODS: Mapping[str, Mapping[Role, tuple[str, ...]]] = {
    _JOBS: {
        # Who knows an id was told it: ids are random, so these need no right to look around.
        Role.SUBMIT: (
            "SubmitJob",
            "SubmitJobs",
            "GetJob",
            "ListJobEvents",
            "WatchJob",
            "CancelJob",
        ),
        Role.OPERATE: ("ListJobs", "RetryJob", "DeleteJob"),
    },
    _ADMIN: {
        Role.SUBMIT: ("GetVersion",),
        Role.OPERATE: (
            "GetQueue",
            "ListQueues",
            "PauseQueue",
            "ResumeQueue",
            "GetQueueStats",
            "ListWorkers",
            "DrainWorker",
            "ShutdownWorker",
            "GetSystemStatus",
            "RunDoctor",
        ),
        Role.ADMIN: ("CreateQueue", "UpdateQueue", "DeleteQueue"),
    },
    _EVENTS: {
        Role.OPERATE: ("TailEvents", "ListParkedEvents", "ResendParkedEvents"),
        Role.ADMIN: ("DisconnectKafka",),
    },
}

_SERVICES: Mapping[str, Role] = {
    "/jobqueue.v1.WorkerService/": Role.WORK,
    "/grpc.reflection.v1alpha.ServerReflection/": Role.SUBMIT,
}
"""Services whose methods all need the same role."""

OPEN = "/grpc.health.v1.Health/"
"""Probes have no credentials."""

_NEEDED = {
    f"{service}{name}": role
    for service, roles in _METHODS.items()
    for role, names in roles.items()
    for name in names
}


def needed_role(method: str) -> Role | None:
    """Return the least role that may call a method (``/package.Service/Method``); None: nobody."""
    service = method[: method.rfind("/") + 1]
    return _NEEDED.get(method) or _SERVICES.get(service)
