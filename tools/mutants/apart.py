"""Ways to break how attempts are kept apart from their worker, and what watches over both."""

from tools.mutants.mutant import Mutant

APART = (
    Mutant(
        "who has finished is timed out while its leftovers are ended",
        "jobqueue/worker/attempt.py",
        "if self.finished and reason is not Stop.LOST:",
        "if False:",
        "tests/unit/worker/test_finished.py",
    ),
    Mutant(
        "behind a look that hangs everybody waits",
        "jobqueue/worker/sweep.py",
        "if self._hanging:",
        "if False:",
        "tests/unit/worker/test_groups.py",
    ),
    Mutant(
        "a copy of a worker keeps its pipes and ports open",
        "jobqueue/runtime/copies.py",
        "_ours.add(file)",
        "pass",
        "tests/unit/worker/test_copies.py",
    ),
    Mutant(
        "a keeper that does not answer stays",
        "jobqueue/lease/keeper.py",
        "if self._silent_s >= self._ask_after_s + ANSWER_LIMIT_S:",
        "if False:",
        "tests/process/test_silent_keeper.py",
    ),
    Mutant(
        "a remote worker stays with a server that stands still",
        "jobqueue/remote/link.py",
        "if isinstance(ours, DeadlineExceeded):",
        "if False:",
        "tests/unit/remote/test_link.py",
    ),
    Mutant(
        "a signal that meets a program at its start raises SystemExit",
        "jobqueue/cli/common.py",
        "lambda *_: os._exit(0)",
        "lambda *_: sys.exit(0)",
        "tests/unit/cli/test_early_signals.py",
    ),
    Mutant(
        "a loop that cannot go on is run again and again",
        "jobqueue/runtime/guests.py",
        "if task.done() or loop.is_running():",
        "if task.done():",
        "tests/unit/runtime/test_guests.py",
    ),
)
