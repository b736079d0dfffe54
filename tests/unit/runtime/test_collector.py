"""The collector leaves alone what the start has made."""

import gc

from jobqueue.runtime.collector import YOUNG_OBJECTS, calm_collector


def test_what_there_is_is_not_looked_at_again_and_young_objects_less_often() -> None:
    before = gc.get_threshold()
    try:
        calm_collector()
        assert gc.get_freeze_count() > 1_000
        assert gc.get_threshold() == (YOUNG_OBJECTS, *before[1:])
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
