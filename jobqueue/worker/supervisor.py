"""Several worker processes under one parent, for more than one core.

The parent holds no connection and runs no job. Each child is started by exec and is a whole
worker. The parent passes signals on and replaces a child that crashed.
"""

import asyncio
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from jobqueue.runtime.grpc_environment import environment_given
from jobqueue.runtime.service import Service
from jobqueue.runtime.shutdown import ShutdownSignals
from jobqueue.worker.groups import exit_words
from jobqueue.worker.signals import PROCESS_ENDED, ProcessEnded
from jobqueue.worker.waiting import any_set

LOOK_S = 0.2
FIRST_WAIT_S, LAST_WAIT_S = 0.5, 30.0
"""A child that crashes is replaced after 0.5 s, doubling to 30 s while it keeps crashing."""

STEADY_S = 60.0
"""A child that lived this long is not one that keeps crashing."""

EXIT_BAD_SETTINGS = 2

CHILD_AS_ASKED, CHILD_BAD_SETTINGS = 94, 92
"""What a child ends with that was told to end, or whose settings are bad. Not 0 and 2: so ends one
whose handler ended it, or a library that the handler calls."""

_FINAL = {CHILD_AS_ASKED: "ended as asked", CHILD_BAD_SETTINGS: "bad settings"}
"""A restart is not wanted, or does not heal."""


@dataclass
class _Member:
    """One place: its program, the process in it, and when to start the next."""

    argv: Sequence[str]
    process: subprocess.Popen[bytes] | None = None
    code: int | None = None
    started_at: float = 0.0
    due_at: float = field(default_factory=time.monotonic)
    wait_s: float = FIRST_WAIT_S


class Supervisor(Service):
    """Keeps one process per command running. ``ended`` is set when none is left or wanted.

    Each process inherits the open files in ``fds``.
    """

    def __init__(self, commands: Sequence[Sequence[str]], fds: Sequence[int] = ()) -> None:
        super().__init__("supervisor", interval_s=LOOK_S, jitter=0.0)
        self.ended = asyncio.Event()
        self._members = [_Member(argv) for argv in commands]
        self._replacing = True
        self._fds = fds

    async def turn(self) -> float | None:
        """Notice who ended, and start who is due."""
        for member in self._members:
            self._look_at(member)
        if all(m.process is None and not self._wanted(m) for m in self._members):
            self.ended.set()
        return None

    def send(self, number: signal.Signals) -> None:
        """Pass a signal on to every child, and replace none from now on."""
        self._replacing = False
        for member in self._members:
            if member.process is not None and member.process.poll() is None:
                member.process.send_signal(number)
        self.wake()

    @property
    def exit_code(self) -> int:
        """The first code of a bad end; 1 for a death by signal."""
        codes = [m.code for m in self._members if m.code not in {None, 0, CHILD_AS_ASKED}]
        code = codes[0] if codes else 0
        return EXIT_BAD_SETTINGS if code == CHILD_BAD_SETTINGS else code if code >= 0 else 1

    def _wanted(self, member: _Member) -> bool:
        return member.code not in _FINAL and (self._replacing or member.code is None)

    def _look_at(self, member: _Member) -> None:
        if member.process is not None and (code := member.process.poll()) is not None:
            self._note_end(member, member.process, code)
        if member.process is None and not self._replacing and member.code is None:
            member.code = CHILD_AS_ASKED  # told to end before it was started
        due = member.process is None and self._wanted(member)
        if due and time.monotonic() >= member.due_at:
            member.started_at = time.monotonic()
            # A session of its own: Ctrl-C reaches it through us, once.
            member.process = subprocess.Popen(
                member.argv, start_new_session=True, pass_fds=self._fds, env=environment_given()
            )

    def _note_end(self, member: _Member, process: "subprocess.Popen[bytes]", code: int) -> None:
        now = time.monotonic()
        steady = now - member.started_at > STEADY_S
        wait_s = FIRST_WAIT_S if steady else member.wait_s
        member.process, member.code = None, code
        member.due_at, member.wait_s = now + wait_s, min(2 * wait_s, LAST_WAIT_S)
        again_in_s = wait_s if self._wanted(member) else None
        how = _FINAL.get(code) or exit_words(code)
        PROCESS_ENDED.emit(ProcessEnded(process.pid, how, again_in_s))


async def supervise(
    commands: Sequence[Sequence[str]], asked: ShutdownSignals, fds: Sequence[int] = ()
) -> int:
    """Run one process per command until all have ended; return the exit code for the parent."""
    supervisor = Supervisor(commands, fds)
    await supervisor.start()
    await any_set(asked.drain, asked.shutdown, supervisor.ended)
    if asked.drain.is_set():
        supervisor.send(signal.SIGUSR1)
    await any_set(asked.shutdown, supervisor.ended)
    supervisor.send(signal.SIGTERM)
    await any_set(asked.hurry, supervisor.ended)
    if asked.hurry.is_set():
        supervisor.send(signal.SIGTERM)
    await supervisor.ended.wait()
    await supervisor.stop()
    return supervisor.exit_code
