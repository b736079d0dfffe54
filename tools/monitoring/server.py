"""The dashboard of servers, and of what they lean on: PostgreSQL, Redis, Kafka."""

from tools.monitoring.grafana import SERVERS, Dashboard, Panel, Query, Row

_CALLS = "jq_grpc_request_duration_seconds"
_STATEMENTS = "jq_db_query_duration_seconds"
STREAMS = (
    "JobService/WatchJob|EventService/TailEvents|WorkerService/StreamJobs|AdminService/RunDoctor"
    "|ExternalScaler/StreamIsActive"
)
"""Calls that last as long as their callers like, as a pattern. The rules have it too."""

_UNARY = f'method!~"{STREAMS}"'


def _rate(metric: str, by: str, *matchers: str) -> str:
    chosen = ", ".join(("%", *matchers))
    return f"sum by ({by}) (rate({metric}{{{chosen}}}[$__rate_interval]))"


def _mean(summary: str, by: str, *matchers: str) -> str:
    return f"{_rate(f'{summary}_sum', by, *matchers)} / {_rate(f'{summary}_count', by, *matchers)}"


_ROW_OF_CALLS = Row(
    "Calls",
    [
        Panel(
            title="Calls, by method",
            description="A stream counts when it ends. Health checks are not counted.",
            unit="reqps",
            queries=[Query(_rate(f"{_CALLS}_count", "method"), "{{method}}")],
        ),
        Panel(
            title="Calls, by status code",
            description="UNAVAILABLE, INTERNAL and DEADLINE_EXCEEDED are faults of ours, the others"
            " are the callers'. Without streams: a watcher lets one last a minute, and it then"
            " ends with DEADLINE_EXCEEDED.",
            unit="reqps",
            stacked=True,
            queries=[Query(_rate(f"{_CALLS}_count", "status_code", _UNARY), "{{status_code}}")],
        ),
        Panel(
            title="Mean time of a call, by method",
            description="Without streams, which last as long as their callers like.",
            unit="s",
            queries=[Query(_mean(_CALLS, "method", _UNARY), "{{method}}")],
        ),
    ],
)

_LOOPS = Row(
    "Reaper and scheduler",
    [
        Panel(
            title="Jobs that came due",
            description="Their delay or backoff was over, and the scheduler made them claimable.",
            unit="cps",
            queries=[Query(_rate("jq_scheduler_jobs_assigned_total", "queue"), "{{queue}}")],
        ),
        Panel(
            title="Leases taken back",
            description="They ran out: their workers died or were cut off.",
            unit="cps",
            queries=[Query(_rate("jq_lease_expired_total", "queue"), "{{queue}}")],
        ),
        Panel(
            title="One batch of the scheduler",
            description="It moves scheduler.batch_size jobs at most.",
            unit="s",
            queries=[
                Query(
                    f"histogram_quantile({share}, "
                    + _rate("jq_scheduler_cycle_duration_seconds_bucket", "le")
                    + ")",
                    name,
                )
                for share, name in ((0.5, "median"), (0.99, "99 %"))
            ],
        ),
        Panel(
            title="Since a loop last made progress",
            description="The longest of all servers. Above the line JqLoopStuck begins to count;"
            " upkeep-events, announcer and listener may rest for long.",
            unit="s",
            width=12,
            steps=((None, "green"), (120, "red")),
            queries=[
                Query(
                    "max by (loop) (jq_loop_last_progress_seconds{%, " + SERVERS + "})", "{{loop}}"
                )
            ],
        ),
        Panel(
            title="Who holds which lock",
            description="Without Redis nobody holds reaper and scheduler: every server acts.",
            unit="short",
            width=12,
            queries=[Query("max by (lock, instance) (jq_lock_held{%})", "{{lock}} {{instance}}")],
        ),
    ],
)

_DATABASE = Row(
    "Database",
    [
        Panel(
            title="Time in the database, by statement",
            description="Of servers and workers, in seconds a second: the ten dearest. Together"
            " they are the connections that are busy at a time.",
            unit="short",
            stacked=True,
            queries=[
                Query(f"topk(10, {_rate(f'{_STATEMENTS}_sum', 'query_name')})", "{{query_name}}")
            ],
        ),
        Panel(
            title="Statements",
            description="Of servers and workers: the ten most frequent, by the name of their file"
            " in jobqueue/store/sql.",
            unit="cps",
            queries=[
                Query(f"topk(10, {_rate(f'{_STATEMENTS}_count', 'query_name')})", "{{query_name}}")
            ],
        ),
        Panel(
            title="Mean time of a statement",
            description="Of servers and workers: the ten slowest, with the way there and back.",
            unit="s",
            queries=[Query(f"topk(10, {_mean(_STATEMENTS, 'query_name')})", "{{query_name}}")],
        ),
        Panel(
            title="Mean time of a claim",
            description="Above the line JqClaimsSlow begins to count: a long transaction, a"
            " database at its limit, autovacuum off.",
            unit="s",
            width=12,
            steps=((None, "green"), (0.2, "red")),
            queries=[
                Query(_mean(_STATEMENTS, "query_name", 'query_name="claim_jobs"'), "{{query_name}}")
            ],
        ),
        Panel(
            title="Oldest transaction",
            description="It keeps dead rows alive, and claims slow down. Above the line"
            " JqLongTransaction begins to count.",
            unit="s",
            width=12,
            steps=((None, "green"), (900, "red")),
            queries=[Query("max(jq_db_oldest_xmin_age_seconds{%})", "oldest")],
        ),
    ],
)

_REDIS = Row(
    "Redis",
    [
        Panel(
            title="Operations",
            description="Empty without redis.addr.",
            unit="cps",
            width=12,
            queries=[
                Query(
                    _rate("jq_redis_operation_duration_seconds_count", "operation"), "{{operation}}"
                )
            ],
        ),
        Panel(
            title="Mean time of an operation",
            description="Slower than redis.connect_timeout_ms counts as away.",
            unit="s",
            width=12,
            queries=[
                Query(_mean("jq_redis_operation_duration_seconds", "operation"), "{{operation}}")
            ],
        ),
    ],
)

_KAFKA = Row(
    "Events to Kafka",
    [
        Panel(
            title="Events that wait",
            description="What Kafka has not confirmed, exact up to 10,000. Empty without"
            " kafka.brokers.",
            unit="short",
            queries=[Query("max(jq_event_backlog{%})", "waiting")],
        ),
        Panel(
            title="Age of the oldest",
            description="Above the line JqEventsLagging begins to count.",
            unit="s",
            steps=((None, "green"), (60, "red")),
            queries=[Query("max(jq_event_oldest_age_seconds{%})", "oldest")],
        ),
        Panel(
            title="Refused",
            description="Attempts that were not taken and are repeated, a second; and events that"
            " were refused for good and are parked.",
            unit="short",
            queries=[
                Query(_rate("jq_kafka_publish_errors_total", "topic"), "{{topic}} errors/s"),
                Query("max(jq_events_parked{%})", "parked"),
            ],
        ),
    ],
)

SERVER = Dashboard(
    "jobqueue-server",
    "jobqueue / Server and database",
    "Calls, loops, locks, statements, Redis and Kafka.",
    [_ROW_OF_CALLS, _LOOPS, _DATABASE, _REDIS, _KAFKA],
)
