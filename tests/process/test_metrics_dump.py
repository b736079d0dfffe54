"""The dump of both programs after much work, made small (R-7.1)."""

import pytest

from tools.metrics_dump import Load, dump


@pytest.mark.timeout(300)
def test_after_work_in_many_queues_every_metric_is_there_and_series_are_bounded() -> None:
    findings = dump(Load(jobs=100, queues=4, restarts=1))
    assert not findings.faults
    assert len(findings.lines) > 30, "each metric was looked for"
