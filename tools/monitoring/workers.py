"""The dashboard of the fleet of workers."""

from tools.monitoring.grafana import WORKERS, Dashboard, Panel, Query, Row, Stat, Table

_STATEMENTS = "jq_db_query_duration_seconds"


def _of_workers(metric: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}{{%, {WORKERS}}}[$__rate_interval]))"


_NOW = Row(
    "Now",
    [
        Stat(
            title="Active workers",
            description="Workers that beat and claim, as the database knows them.",
            unit="short",
            width=6,
            queries=[Query("sum(max by (namespace) (jq_worker_active_count{%}))")],
            steps=((None, "red"), (1, "green")),
        ),
        Stat(
            title="Worker processes that do not answer",
            description="Targets whose metrics could not be read.",
            unit="short",
            width=6,
            queries=[Query("count(up{%, " + WORKERS + "} == 0) or vector(0)")],
            steps=((None, "green"), (1, "red")),
        ),
        Stat(
            title="Handlers at work",
            description="Jobs that run now.",
            unit="short",
            width=6,
            queries=[Query("sum(jq_worker_job_concurrency{%})")],
        ),
        Stat(
            title="Jobs to run",
            description="Jobs that may be claimed, or are held by workers: what the fleet is"
            " scaled on.",
            unit="short",
            width=6,
            queries=[Query("sum(max by (namespace, queue) (jq_queue_runnable{%}))")],
        ),
    ],
)

_WORK = Row(
    "Work",
    [
        Panel(
            title="Workers",
            description="Active ones as the database knows them, processes as Prometheus sees"
            " them. They differ while one is cut off, or drains.",
            unit="short",
            queries=[
                Query("sum(max by (namespace) (jq_worker_active_count{%}))", "active"),
                Query("sum(up{%, " + WORKERS + "})", "processes that answer"),
            ],
        ),
        Panel(
            title="Handlers at work, by worker",
            description="A worker that stays at its concurrency is full; one that stays at 0 serves"
            " queues without work.",
            unit="short",
            stacked=True,
            queries=[Query("sum by (worker_id) (jq_worker_job_concurrency{%})", "{{worker_id}}")],
        ),
        Panel(
            title="Attempts that ended, by worker",
            description="What servers write for remote workers is not in it.",
            unit="cps",
            stacked=True,
            queries=[
                Query(
                    "sum by (instance) (rate(jq_job_total"
                    '{%, status=~"DONE|FAILED", ' + WORKERS + "}[$__rate_interval]))",
                    "{{instance}}",
                )
            ],
        ),
        Panel(
            title="How long handlers run",
            description="Of all queues. Beyond the last bucket (1 h) it is not told apart.",
            unit="s",
            queries=[
                Query(
                    f"histogram_quantile({share}, sum by (le)"
                    " (rate(jq_job_processing_duration_seconds_bucket{%}[$__rate_interval])))",
                    name,
                )
                for share, name in ((0.5, "median"), (0.95, "95 %"), (0.99, "99 %"))
            ],
        ),
        Panel(
            title="Mean time of a handler, by queue",
            description="When it grows, what the handlers call has become slow: more workers would"
            " make it worse.",
            unit="s",
            queries=[
                Query(
                    "sum by (queue)"
                    " (rate(jq_job_processing_duration_seconds_sum{%}[$__rate_interval]))"
                    " / sum by (queue)"
                    " (rate(jq_job_processing_duration_seconds_count{%}[$__rate_interval]))",
                    "{{queue}}",
                )
            ],
        ),
        Panel(
            title="Slots in use, by queue",
            description="Handlers that ran at a time, on average.",
            unit="short",
            stacked=True,
            queries=[
                Query(
                    "sum by (queue)"
                    " (rate(jq_job_processing_duration_seconds_sum{%}[$__rate_interval]))",
                    "{{queue}}",
                )
            ],
        ),
    ],
)

_LEASES = Row(
    "Leases and loops",
    [
        Panel(
            title="Renewals, by worker",
            description="Running jobs divided by lease.renew_interval_s, when they are long.",
            unit="cps",
            stacked=True,
            queries=[
                Query(
                    "sum by (instance) (rate(jq_lease_renewed_total{%}[$__rate_interval]))",
                    "{{instance}}",
                )
            ],
        ),
        Panel(
            title="Leases that ended badly",
            description="Expired: a worker died or was cut off. Lost: a live one came too late."
            " Both should be 0.",
            unit="cps",
            queries=[
                Query(
                    f"sum by (queue) (rate(jq_lease_{end}_total{{%}}[$__rate_interval]))",
                    f"{{{{queue}}}} {end}",
                )
                for end in ("expired", "lost")
            ],
        ),
        Panel(
            title="Since a loop last made progress",
            description="The longest of all workers. Above the line JqLoopStuck begins to count;"
            " hints may rest for long.",
            unit="s",
            steps=((None, "green"), (120, "red")),
            queries=[
                Query(
                    "max by (loop) (jq_loop_last_progress_seconds{%, " + WORKERS + "})", "{{loop}}"
                )
            ],
        ),
    ],
)

_DATABASE = Row(
    "What workers ask the database",
    [
        Panel(
            title="Statements",
            description="By the name of their file in jobqueue/store/sql.",
            unit="cps",
            width=12,
            queries=[Query(_of_workers(f"{_STATEMENTS}_count", "query_name"), "{{query_name}}")],
        ),
        Panel(
            title="Mean time of a statement",
            description="As the worker sees it, with the way there and back.",
            unit="s",
            width=12,
            queries=[
                Query(
                    _of_workers(f"{_STATEMENTS}_sum", "query_name")
                    + " / "
                    + _of_workers(f"{_STATEMENTS}_count", "query_name"),
                    "{{query_name}}",
                )
            ],
        ),
        Table(
            title="Versions",
            description="What workers run.",
            unit="short",
            height=6,
            units={},
            queries=[
                Query(
                    "count by (version, commit) (jq_build_info{%, " + WORKERS + "})", "PROCESSES"
                ),
            ],
        ),
    ],
)

WORKERS_PAGE = Dashboard(
    "jobqueue-workers",
    "jobqueue / Workers",
    "Are there enough workers, and are they well?",
    [_NOW, _WORK, _LEASES, _DATABASE],
)
