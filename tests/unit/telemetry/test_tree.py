from dataclasses import replace

from examples.trace.collector import Span
from examples.trace.tree import tree

ROOT = Span("submit_job", "PRODUCER", "jq-server", "t", "1", "", (), 0, 2_000_000, False, {})
RUN = replace(
    ROOT,
    name="execute_job",
    service="jq-worker",
    span_id="2",
    parent_id="1",
    begun=3_000_000,
    ended=4_500_000,
    failed=True,
    attributes={"messaging.jobqueue.attempt": 1, "error.type": "HANDLER_FAILED"},
)


def test_spans_stand_below_their_parents_in_order() -> None:
    settled = replace(RUN, name="ack_job", span_id="3", parent_id="2", failed=False)
    again = replace(RUN, span_id="4", failed=False, attributes={})
    lines = tree([ROOT, RUN, settled, again])
    assert [line.split()[:2] for line in lines] == [
        ["submit_job", "jq-server"],
        ["├─", "execute_job"],
        ["│", "└─"],
        ["└─", "execute_job"],
    ]
    assert lines[1].endswith("at      3.0 ms,     1.5 ms  attempt 1  HANDLER_FAILED")


def test_a_span_whose_parent_is_elsewhere_is_a_root() -> None:
    assert tree([replace(RUN, parent_id="gone")])[0].startswith("execute_job")
    assert tree([]) == []
