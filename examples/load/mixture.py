"""Which jobs are submitted."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from jobqueue.client import JobSpec

MAIL, REPORTS = "mail", "reports"
"""The queues that are made, beside `default`."""

_FLAKY_OF_FAILING = 0.8
_REPORTS, _DELAYED = 0.1, 0.05
_ALL = 100.0
_MAIL_MS, _BLOCKS = (5, 250), (50, 500)


@dataclass(frozen=True, slots=True)
class Load:
    """How much is submitted. ``seconds`` 0: until it is stopped."""

    jobs_per_s: float = 20.0
    failing_percent: float = 5.0
    seconds: float = 0.0

    @classmethod
    def of(cls, env: Mapping[str, str]) -> Self:
        """Read `LOAD_JOBS_PER_S`, `LOAD_FAILING_PERCENT`, `LOAD_SECONDS`; empty counts as unset.

        Raises ValueError for what is no number, or for less than none.
        """
        given = {name: env.get(f"LOAD_{name.upper()}") for name in cls.__slots__}
        load = cls(**{name: float(text) for name, text in given.items() if text})
        if load.jobs_per_s <= 0 or load.seconds < 0 or not 0 <= load.failing_percent <= _ALL:
            raise ValueError(f"this cannot be submitted: {load}")
        return load


def draw(load: Load, dice: random.Random) -> JobSpec:
    """Return one job of the mixture."""
    priority = dice.choice((0, 0, 0, 5, 9))
    if dice.random() * _ALL < load.failing_percent:
        kind = "load-flaky" if dice.random() < _FLAKY_OF_FAILING else "load-refused"
        return JobSpec("default", type=kind, priority=priority)
    if dice.random() < _REPORTS:
        return JobSpec(REPORTS, b"%d" % dice.randint(*_BLOCKS), type="load-report")
    delay_s = dice.uniform(1, 10) if dice.random() < _DELAYED else 0.0
    wait_ms = b"%d" % dice.randint(*_MAIL_MS)
    return JobSpec(MAIL, wait_ms, type="load-mail", priority=priority, delay_s=delay_s)
