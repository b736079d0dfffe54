"""What a handler may say about its job, other than by returning a plain value."""

from dataclasses import dataclass

from jobqueue.domain.backoff import MAX_DELAY_S


@dataclass(frozen=True, slots=True)
class Done:
    """The job is done; return it. ``result`` is bytes, str, a JSON-able value or None."""

    result: object = None


class RetryLater(Exception):
    """Raise it to be run again after ``delay_s`` seconds. Costs no retry.

    Raises ValueError unless ``delay_s`` is a number from 0 to ten years.
    """

    why: str = ""

    def __init__(self, delay_s: float, why: str = "") -> None:
        if not 0 <= delay_s <= MAX_DELAY_S:  # which NaN is not, either
            raise ValueError(f"delay_s must be between 0 and {MAX_DELAY_S:.12g}, not {delay_s!r}")
        super().__init__(why)
        self.delay_s = float(delay_s)
        self.why = why


class Fail(Exception):
    """Raise it when no retry can help: the job is dead-lettered as REFUSED at once."""

    why: str = ""  # what a class below says that does not call ours

    def __init__(self, why: str = "") -> None:
        super().__init__(why)
        self.why = why
