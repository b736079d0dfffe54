"""What becomes of a producer that is given up (R-4.9, R-6.3)."""

import asyncio
import threading
from typing import ClassVar

import pytest
from confluent_kafka import Producer

from jobqueue.config.model import KafkaSettings
from jobqueue.events import publisher
from jobqueue.events.encode import Record
from jobqueue.events.publisher import Publisher
from tests.support.waiting import HANG_S

RECORD: Record = (b"job", b"event", {})


class Clinging(Producer):
    """Takes long to end, as while a name server does not answer; and so does its flush."""

    flushing: ClassVar[threading.Event]
    flushed: ClassVar[threading.Event]
    let_go: ClassVar[threading.Event]
    ended: ClassVar[threading.Event]
    ended_by: ClassVar[threading.Thread]

    def flush(self, timeout: float = -1) -> int:
        self.flushing.set()
        self.flushed.wait(HANG_S)
        return 0

    def __del__(self) -> None:
        type(self).ended_by = threading.current_thread()
        self.let_go.wait(HANG_S)
        self.ended.set()


async def give_up_in_the_middle() -> None:
    publisher = Publisher(KafkaSettings(brokers=("127.0.0.1:1",)))
    sending = asyncio.create_task(publisher.publish([RECORD]))
    await asyncio.to_thread(Clinging.flushing.wait, HANG_S)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    publisher.abandon()
    Clinging.flushed.set()


def test_neither_the_loop_nor_the_end_of_the_program_waits_for_the_end_of_a_producer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(publisher, "Producer", Clinging)
    for name in ("flushing", "flushed", "let_go", "ended"):
        setattr(Clinging, name, threading.Event())
    asyncio.run(give_up_in_the_middle())
    assert not Clinging.ended.is_set()
    Clinging.let_go.set()
    assert Clinging.ended.wait(HANG_S), "it is ended all the same"
    assert Clinging.ended_by.daemon
