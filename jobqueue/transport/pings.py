"""How either end of a gRPC connection finds out that the other is gone without a word (R36).

What lies between them may have forgotten the connection, or a host may have lost its power: then
nothing ever arrives, and a call without an end, such as a stream, would wait for ever.
"""

ASKED_AFTER_S, ANSWER_S = 30, 20
"""A peer that said nothing for so long is asked, and given up without an answer in so long."""

LEAST_S = 20
"""A server cuts clients that ask more often."""

PINGS: tuple[tuple[str, int], ...] = (
    ("grpc.keepalive_time_ms", ASKED_AFTER_S * 1000),
    # Of these two, versions of the library obey one or the other; by default the last is a minute.
    ("grpc.keepalive_timeout_ms", ANSWER_S * 1000),
    ("grpc.http2.ping_timeout_ms", ANSWER_S * 1000),
)
"""Options of channels and of servers."""
