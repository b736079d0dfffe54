"""When the figures are read out of turn."""

from typing import cast

from jobqueue.store.pool import Pool
from jobqueue.submission.figures import FigureReader


async def test_a_hurry_begins_the_next_read_unless_reads_are_dear() -> None:
    reader = FigureReader(cast("Pool", None))
    reader.hurry()
    assert reader._woken.is_set()
    reader._woken.clear()
    for _ in range(2):
        reader.sparing(1.0)
    reader.hurry()
    assert not reader._woken.is_set()
