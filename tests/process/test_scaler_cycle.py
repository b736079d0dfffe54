"""Workers that come and go by the scaler's answers, and no job that notices (R-10.2)."""

from pathlib import Path

import pytest

from tools.scaler_cycle import Cycle, driving

# The long job outlasts the others by two looks at the figures and the cooldown: time enough for an
# end that comes too early.
SHORT = Cycle(
    jobs=13,
    job_s=0.3,
    long_job_s=12.0,
    slots=2,
    max_replicas=3,
    cooldown_s=1.0,
    stabilisation_s=1.0,
    limit_s=100.0,
)


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_replicas_follow_the_work_from_none_and_back_and_never_are_zero_while_a_job_runs(
    database: str, tmp_path: Path
) -> None:
    async with driving(database, tmp_path, SHORT) as drive:
        assert await drive.faults() == []
        told = [(sample.told, sample.active) for sample in drive.samples]
    assert told[0] == told[-1] == (0.0, False)
    assert max(told) == (float(SHORT.jobs), True)
