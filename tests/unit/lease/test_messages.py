from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobqueue.domain.lease import Lease
from jobqueue.domain.worker import WorkerFacts
from jobqueue.lease.messages import (
    Ask,
    Beat,
    Begin,
    Cancel,
    Command,
    Deadline,
    Decoder,
    Drop,
    Here,
    Hold,
    Logged,
    Lost,
    Message,
    Moved,
    Reach,
    Registered,
    Renewed,
    Unknown,
    encode,
)
from jobqueue.lease.settings import LeaseSettings

FACTS = WorkerFacts("w-1", "host", 7, ("a", "b"), ("mail",), 4, "direct", "0.1.0")
LEASES = (Lease(1, 2), Lease(3, 2**62))
MESSAGES: list[Message] = [
    Begin("postgresql://u:p@h/db", LeaseSettings(lease_s=2.5), FACTS, None, draining=False),
    Begin("postgresql://u:p@h/db", LeaseSettings(), FACTS, 9, draining=True),
    Hold(LEASES, 12.25),
    Drop(()),
    Deadline(LEASES[0], 1e9),
    Beat(),
    Ask(),
    Here(),
    Registered(4),
    Reach("the database cannot be reached"),
    Renewed(LEASES, 3.5),
    Lost(LEASES, "„why“"),
    Cancel(LEASES),
    Command("DRAIN"),
    Unknown(LEASES),
    Moved("q", "FAILED", "RELEASED", 2),
    Logged("asyncpg.pool", 30, "line\nbreak", {"loop": "x"}),
    Logged("here", 40, "100 %", {}, {"type": "E", "message": "m", "stack": []}),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_a_message_arrives_as_it_was_sent(message: Message) -> None:
    assert list(Decoder().feed(encode(message))) == [message]


@given(st.lists(st.integers(0, 2_000), max_size=20))
def test_frames_may_be_cut_anywhere(cuts: list[int]) -> None:
    stream = b"".join(map(encode, MESSAGES))
    edges = sorted({0, len(stream), *(c for c in cuts if c < len(stream))})
    decoder = Decoder()
    heard = [m for a, b in pairwise(edges) for m in decoder.feed(stream[a:b])]
    assert heard == MESSAGES
