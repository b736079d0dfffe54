"""The dashboard that tells in one look whether all is well."""

from tools.monitoring.grafana import SERVERS, Dashboard, Panel, Query, Row, Stat, Table

_GOOD_SHARE = ((None, "red"), (0.95, "orange"), (0.99, "green"))
_NOT_NONE = ((None, "red"), (1, "green"))

_NOW = Row(
    "Now",
    [
        Stat(
            title="Jobs to run",
            description="Jobs that may be claimed, or are held by workers. Those of paused queues"
            " do not count.",
            unit="short",
            queries=[Query("sum(max by (namespace, queue) (jq_queue_runnable{%}))")],
        ),
        Stat(
            title="Oldest waiting job",
            description="For how long a job has been claimable, paused queues included.",
            unit="s",
            queries=[Query("max(jq_job_oldest_age_seconds{%})")],
            steps=((None, "green"), (60, "orange"), (600, "red")),
        ),
        Stat(
            title="Started within 10 s, last hour",
            description="Share of the starts that came within 10 s after the job was ready.",
            unit="percentunit",
            queries=[
                Query(
                    'sum(rate(jq_job_wait_seconds_bucket{%, le="10.0"}[1h]))'
                    " / sum(rate(jq_job_wait_seconds_count{%}[1h]))"
                )
            ],
            steps=_GOOD_SHARE,
        ),
        Stat(
            title="Succeeded, last hour",
            description="Share of the ended jobs that are DONE; cancelled ones do not count.",
            unit="percentunit",
            queries=[
                Query(
                    'sum(rate(jq_job_total{%, status="DONE"}[1h]))'
                    ' / (sum(rate(jq_job_total{%, status="DONE"}[1h]))'
                    ' + sum(rate(jq_job_dead_lettered_total{%, reason!="CANCELLED"}[1h])))'
                )
            ],
            steps=_GOOD_SHARE,
        ),
        Stat(
            title="Active workers",
            description="Workers that beat and claim, as the database knows them.",
            unit="short",
            queries=[Query("sum(max by (namespace) (jq_worker_active_count{%}))")],
            steps=_NOT_NONE,
        ),
        Stat(
            title="Servers that answer",
            description="Servers whose metrics could be read.",
            unit="short",
            queries=[Query("sum(up{%, " + SERVERS + "})")],
            steps=_NOT_NONE,
        ),
    ],
)

_FLOW = Row(
    "Jobs",
    [
        Panel(
            title="Transitions, by the status they lead to",
            description="PENDING: submitted or to be tried again. RUNNING: started. The rest: how"
            " attempts and jobs ended.",
            unit="cps",
            width=12,
            queries=[
                Query("sum by (status) (rate(jq_job_total{%}[$__rate_interval]))", "{{status}}")
            ],
        ),
        Panel(
            title="Jobs to run, by queue",
            description="The ten queues that have most. Workers are scaled on it.",
            unit="short",
            width=12,
            stacked=True,
            queries=[
                Query(
                    "topk(10, sum by (queue) (max by (namespace, queue) (jq_queue_runnable{%})))",
                    "{{queue}}",
                )
            ],
        ),
        Panel(
            title="Wait until the start",
            description="From when a job was ready (its delay or backoff over) to its start.",
            unit="s",
            queries=[
                Query(
                    f"histogram_quantile({share},"
                    " sum by (le) (rate(jq_job_wait_seconds_bucket{%}[$__rate_interval])))",
                    name,
                )
                for share, name in ((0.5, "median"), (0.95, "95 %"), (0.99, "99 %"))
            ],
        ),
        Panel(
            title="Share of attempts that fail, by queue",
            description="The ten worst queues. Above the line JqHighFailureRate begins to count.",
            unit="percentunit",
            steps=((None, "green"), (0.05, "red")),
            queries=[
                Query(
                    "topk(10, (sum by (queue) (rate(jq_job_retries_total{%}[$__rate_interval]))"
                    " + sum by (queue) (rate(jq_job_dead_lettered_total"
                    '{%, reason!~"CANCELLED|TTL_EXPIRED"}[$__rate_interval])))'
                    " / sum by (queue)"
                    ' (rate(jq_job_total{%, status="RUNNING"}[$__rate_interval])))',
                    "{{queue}}",
                )
            ],
        ),
        Panel(
            title="Dead-lettered, by reason",
            description="Jobs that ended for good without success.",
            unit="cps",
            stacked=True,
            queries=[
                Query(
                    "sum by (reason) (rate(jq_job_dead_lettered_total{%}[$__rate_interval]))",
                    "{{reason}}",
                )
            ],
        ),
    ],
)


def _depth(status: str) -> str:
    depth = f'jq_job_queue_depth{{%, status="{status}"}}'
    return f"sum by (queue) (max by (namespace, queue) ({depth}))"


_QUEUES = Row(
    "Queues",
    [
        Table(
            title="Queues",
            description="What is in each queue now. PENDING counts delayed jobs too, FAILED are"
            " those that wait for their backoff. Follow a name to its dashboard.",
            unit="short",
            height=10,
            units={"OLDEST": "s", "DONE/S": "cps"},
            queries=[
                Query(
                    "sum by (queue) (max by (namespace, queue) (jq_queue_runnable{%}))", "TO RUN"
                ),
                Query("max by (queue) (jq_job_oldest_age_seconds{%})", "OLDEST"),
                *(
                    Query(_depth(status), status)
                    for status in ("PENDING", "ASSIGNED", "RUNNING", "FAILED", "DEAD_LETTERED")
                ),
                Query(
                    'sum by (queue) (rate(jq_job_total{%, status="DONE"}[$__rate_interval]))',
                    "DONE/S",
                ),
            ],
        )
    ],
)

_REST = Row(
    "Alerts and versions",
    [
        Table(
            title="Firing alerts",
            description="Alerts of k8s/components/monitoring/rules.yaml, where it is loaded.",
            unit="short",
            width=16,
            units={},
            hidden=("Value", "__name__", "alertstate"),
            queries=[Query('ALERTS{%, alertname=~"Jq.+", alertstate="firing"}')],
        ),
        Table(
            title="Versions",
            description="What runs. During an upgrade there are two of each.",
            unit="short",
            width=8,
            units={},
            queries=[
                Query("count by (job, version, commit) (jq_build_info{%})", "PROGRAMS"),
            ],
        ),
    ],
)

OVERVIEW = Dashboard(
    "jobqueue-overview",
    "jobqueue / Overview",
    "Is work done, and in time?",
    [_NOW, _FLOW, _QUEUES, _REST],
)
