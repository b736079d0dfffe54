"""What a worker writes to its log. Never a payload."""

from jobqueue.domain.lease import LeasedJob
from jobqueue.domain.outcome import Failed, Outcome
from jobqueue.lease.signals import (
    ANSWER_BROKE,
    LEASES_LOST,
    SETTLE_REFUSED,
    AnswerBroke,
    LeaseLoss,
    SettleRefused,
)
from jobqueue.remote.signals import CERTIFICATES_CHANGED
from jobqueue.runtime.log import Logger, Quiet, get_logger
from jobqueue.worker.signals import (
    ATTEMPT_BEGUN,
    ATTEMPT_BROKE,
    ATTEMPT_COMPLETED,
    ATTEMPT_FAILED,
    CHILD_DIED,
    HANDLER_STUCK,
    LOOK_HANGS,
    OUTCOME_DROPPED,
    PHASE_ENTERED,
    PROCESS_ENDED,
    AttemptBegun,
    AttemptBroke,
    AttemptEnded,
    ChildDied,
    HandlerStuck,
    LookHangs,
    OutcomeDropped,
    PhaseEntered,
    ProcessEnded,
)

_KIND_LENGTH = 80
_TROUBLES = frozenset({"unfit", "replaced", "forgotten"})


class WorkerLog:
    """Turns the signals of the worker and lease rooms into lines that name the worker."""

    def __init__(self, **context: object) -> None:
        self._log: Logger = get_logger(__name__).bind(**context)
        self._quiet = Quiet()

    def listen(self) -> None:
        """Subscribe to everything, for the life of the process."""
        if self._log.writes_debug():  # the level was set before
            ATTEMPT_BEGUN.subscribe(self._begun)
            ATTEMPT_COMPLETED.subscribe(self._completed)
        ATTEMPT_FAILED.subscribe(self._failed)
        ATTEMPT_BROKE.subscribe(self._broke)
        OUTCOME_DROPPED.subscribe(self._dropped)
        HANDLER_STUCK.subscribe(self._stuck)
        CHILD_DIED.subscribe(self._child_died)
        LOOK_HANGS.subscribe(self._look_hangs)
        PHASE_ENTERED.subscribe(self._phase)
        PROCESS_ENDED.subscribe(self._process_ended)
        LEASES_LOST.subscribe(self._lost)
        SETTLE_REFUSED.subscribe(self._refused)
        ANSWER_BROKE.subscribe(self._taken_badly)
        CERTIFICATES_CHANGED.subscribe(self._certificates)

    def _begun(self, news: AttemptBegun) -> None:
        self._log.debug("attempt begun", **_names(news.job))

    def _completed(self, news: AttemptEnded) -> None:
        self._log.debug("attempt ended", **_end(news))

    def _failed(self, news: AttemptEnded) -> None:
        self._log.info("attempt ended", **_end(news), **_why(news.outcome))

    def _broke(self, news: AttemptBroke) -> None:
        self._log.bind(**_names(news.job)).error("an attempt broke the worker", error=news.error)

    def _taken_badly(self, news: AnswerBroke) -> None:
        log = self._log.bind(**_names(news.job))
        log.error("an answer to a settlement broke the worker", error=news.error)

    def _dropped(self, news: OutcomeDropped) -> None:
        self._log.warning("outcome dropped", why=news.why, **_names(news.job))

    def _stuck(self, news: HandlerStuck) -> None:
        self._log.bind(**_names(news.job)).error("a handler ignored its end and cannot be killed")

    def _child_died(self, news: ChildDied) -> None:
        self._log.warning("a handler process ended by itself", pid=news.pid, how=news.how)

    def _look_hangs(self, news: LookHangs) -> None:
        if self._quiet.admits("look"):
            words = "the look for what jobs left behind hangs; they end without it"
            self._log.warning(words, seconds=news.seconds)

    def _phase(self, news: PhaseEntered) -> None:
        log = self._log.bind(**({"detail": news.detail} if news.detail else {}))
        write = log.error if news.phase in _TROUBLES else log.info
        write(news.phase)

    def _process_ended(self, news: ProcessEnded) -> None:
        again = {"again_in_s": news.again_in_s} if news.again_in_s is not None else {}
        write = self._log.warning if again else self._log.info
        write("a worker process ended", pid=news.pid, how=news.how, **again)

    def _lost(self, news: LeaseLoss) -> None:
        self._log.warning("lease lost", job_id=str(news.job_id), queue=news.queue, why=news.why)

    def _refused(self, news: SettleRefused) -> None:
        self._log.error("an outcome could not be stored", error=news.error)

    def _certificates(self, fault: str) -> None:
        if fault:
            words = "new certificate files cannot be used; the old ones stay"
            self._log.warning(words, cause=fault)
        else:
            self._log.info("certificates reloaded")


def _names(job: LeasedJob) -> dict[str, object]:
    return {"job_id": str(job.job_id), "queue": job.queue, "type": job.type, "attempt": job.attempt}


def _end(news: AttemptEnded) -> dict[str, object]:
    word = type(news.outcome).__name__.upper()
    return {"outcome": word, **_names(news.job), "seconds": round(news.seconds, 4)}


def _why(outcome: Outcome) -> dict[str, object]:
    """Return the kind of an error. Its message may quote the payload, which is never logged."""
    if not isinstance(outcome, Failed):
        return {}
    return {"cause": outcome.error.partition(":")[0].partition("\n")[0][:_KIND_LENGTH]}
