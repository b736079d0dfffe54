"""Reads ``JQ_SEAMS``: where a program is to meet with an accident, for tests of what happens then.

A seam is a moment around one statement, named after the statement's file:

    <statement>.before   nothing is sent yet
    <statement>.open     it is done, its transaction is not committed yet
    <statement>.after    it is committed, nobody here has heard of it yet

and an accident is ``kill`` (SIGKILL to itself), ``stop`` (SIGSTOP to itself; somebody else goes on
with it) or ``cut`` (the connection breaks, so an answer is lost). ``@3`` lets it happen the third
time and then never again, ``%0.01`` one time in a hundred; without either it is the first time.

    JQ_SEAMS=complete_leases.after=kill@5,renew_leases.before=stop%0.01

A moment may be told to be none unless the statement found something to do: ``after[rows]`` is one
when there are rows in the answer, ``after[CANCELLED]`` when there is one that has this word in its
column ``answer``. ``before[rows]`` can only be known from the answer, too: a statement that is sent
alone is then sent in a transaction, and the moment is before the commit of that.

    JQ_SEAMS=promote_jobs.before[rows]=kill,cancel_job.after[CANCELLED]=kill@2
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

VARIABLE = "JQ_SEAMS"

Accident = Literal["kill", "stop", "cut"]

_ENTRY = re.compile(
    r"(?P<statement>[a-z_]+)\.(?P<moment>before|open|after)(?:\[(?P<only>rows|[A-Z_]+)\])?"
    r"=(?P<accident>kill|stop|cut)"
    r"(?:@(?P<nth>[1-9][0-9]{0,8})|%(?P<share>0?\.[0-9]{1,9}|1))?"
)


@dataclass(frozen=True, slots=True)
class Seam:
    """One accident to come: at the ``nth`` passing, or else at a ``share`` of all.

    With ``only`` just those passings are any whose answer has that.
    """

    accident: Accident
    nth: int | None = 1
    share: float = 0.0
    only: str = ""


def read_seams(text: str) -> Mapping[str, Seam]:
    """Return the accidents by ``statement.moment``. Raises ValueError for what is none."""
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    found = [(entry, _ENTRY.fullmatch(entry)) for entry in entries]
    for entry, match in found:
        if match is None:
            raise ValueError(
                f"{entry!r} is no accident: say statement.before|open|after=kill|stop|cut,"
                " then perhaps @N or %SHARE; behind the moment perhaps [rows] or [ANSWER]"
            )
    return {f"{m['statement']}.{m['moment']}": _seam(m) for _, m in found if m}


def _seam(match: re.Match[str]) -> Seam:
    accident, only = cast("Accident", match["accident"]), match["only"] or ""
    if match["share"]:
        return Seam(accident, None, float(match["share"]), only)
    return Seam(accident, int(match["nth"] or 1), only=only)
