"""The dashboard of single queues: one row of charts for each that was chosen."""

from tools.monitoring.grafana import Dashboard, Panel, Query, Row, Variable

_QUANTILES = ((0.5, "median"), (0.95, "95 %"), (0.99, "99 %"))


def _quantiles(histogram: str) -> list[Query]:
    buckets = f'rate({histogram}_bucket{{%, queue=~"$queue"}}[$__rate_interval])'
    return [
        Query(f"histogram_quantile({share}, sum by (le) ({buckets}))", name)
        for share, name in _QUANTILES
    ]


def _rate(metric: str, matchers: str = "") -> str:
    return f'sum(rate({metric}{{%, queue=~"$queue"{matchers}}}[$__rate_interval]))'


_DEPTHS = 'jq_job_queue_depth{%, queue=~"$queue", status=~"PENDING|ASSIGNED|RUNNING|FAILED"}'

_ROW = Row(
    "$queue",
    repeat="queue",
    panels=[
        Panel(
            title="Jobs, by status",
            description="Those that have not ended. PENDING counts delayed jobs too; FAILED wait"
            " for their backoff.",
            unit="short",
            stacked=True,
            queries=[
                Query(
                    f"sum by (status) (max by (namespace, queue, status) ({_DEPTHS}))", "{{status}}"
                )
            ],
        ),
        Panel(
            title="In and out",
            description="While more come than end, the backlog grows. Attempts that failed come"
            " again as PENDING.",
            unit="cps",
            queries=[
                Query(_rate("jq_job_total", ', status="PENDING"'), "come (PENDING)"),
                Query(_rate("jq_scheduler_jobs_assigned_total"), "of these came due"),
                Query(_rate("jq_job_total", ', status="RUNNING"'), "start"),
                Query(_rate("jq_job_total", ', status="DONE"'), "end DONE"),
                Query(_rate("jq_job_total", ', status="FAILED"'), "end FAILED"),
            ],
        ),
        Panel(
            title="Oldest waiting job",
            description="For how long the oldest claimable job has been ready, also while the"
            " queue is paused. Above the line JqQueueLatencyHigh begins to count.",
            unit="s",
            steps=((None, "green"), (600, "red")),
            queries=[Query('max(jq_job_oldest_age_seconds{%, queue=~"$queue"})', "oldest")],
        ),
        Panel(
            title="Wait until the start",
            description="From when a job was ready (its delay or backoff over) to its start.",
            unit="s",
            queries=_quantiles("jq_job_wait_seconds"),
        ),
        Panel(
            title="How long handlers run",
            description="Whatever came of it. Beyond the last bucket (1 h) it is not told apart.",
            unit="s",
            queries=_quantiles("jq_job_processing_duration_seconds"),
        ),
        Panel(
            title="Slots in use",
            description="Handlers that ran at a time, on average, beside the jobs there are for"
            " them. 0 to run in a queue with PENDING jobs: paused, or all are delayed.",
            unit="short",
            queries=[
                Query(_rate("jq_job_processing_duration_seconds_sum"), "handlers at work"),
                Query(
                    'sum(max by (namespace, queue) (jq_queue_runnable{%, queue=~"$queue"}))',
                    "jobs to run",
                ),
            ],
        ),
        Panel(
            title="Attempts that fail",
            description="Those that will be repeated, and jobs that were dead-lettered, by reason.",
            unit="cps",
            stacked=True,
            queries=[
                Query(_rate("jq_job_retries_total"), "tried again"),
                Query(
                    "sum by (reason) (rate(jq_job_dead_lettered_total"
                    '{%, queue=~"$queue"}[$__rate_interval]))',
                    "{{reason}}",
                ),
            ],
        ),
        Panel(
            title="Leases",
            description="Expired: their workers died or were cut off. Lost: live workers came too"
            " late, and their outcomes were dropped. Both should be 0.",
            unit="cps",
            queries=[
                Query(_rate(f"jq_lease_{end}_total"), end)
                for end in ("acquired", "renewed", "expired", "lost")
            ],
        ),
        Panel(
            title="Left behind",
            description="Dead-lettered jobs stay until they are retried or deleted. Unhandled ones"
            " wait until a worker has a handler for their type.",
            unit="short",
            queries=[
                Query(
                    "sum(max by (namespace, queue)"
                    ' (jq_job_queue_depth{%, queue=~"$queue", status="DEAD_LETTERED"}))',
                    "dead-lettered",
                ),
                Query(
                    'sum(max by (namespace, queue) (jq_job_unhandled{%, queue=~"$queue"}))',
                    "unhandled",
                ),
            ],
        ),
    ],
)

QUEUE = Dashboard(
    "jobqueue-queue",
    "jobqueue / Queue",
    "One queue in depth, or several, one below the other.",
    [_ROW],
    [Variable("queue", "jq_queue_runnable{%}", chosen="default")],
)
