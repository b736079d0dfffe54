"""How many jobs a claim may bring: jobs may be of a mebibyte, and the network slow."""

_GROWTH = 64


class Reach:
    """Learns it from claims that were answered in time and those that were not.

    As TCP learns how much a way takes (RFC 5681, slow start and congestion avoidance): a claim that
    was late is followed by half of it. After the first that comes, sizes double up to half of what
    was the most before, for it may have been an outage; from there on they grow by a sixty-fourth.
    """

    def __init__(self, most: int) -> None:
        """``most`` is what to begin with."""
        self._most = self._sure = most
        self._late = False

    @property
    def most(self) -> int:
        """How many to ask for at most."""
        return self._most

    def was_late(self, n: int) -> None:
        """A claim of ``n`` got no answer in time."""
        if not self._late:
            self._sure = max(self._most // 2, 1)
        self._most, self._late = max(n // 2, 1), True

    def brought(self, count: int) -> None:
        """A claim was answered with so many jobs."""
        self._late = False
        if count < self._most:
            return
        if self._most < self._sure:
            self._most = min(2 * self._most, self._sure)
        else:
            self._most += self._most // _GROWTH + 1
