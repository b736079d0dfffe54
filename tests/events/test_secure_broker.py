"""Brokers that ask for TLS, certificates or a login: `kafka.options`, `kafka.sasl` (R-2.3)."""

import json
import ssl
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from jobqueue.config.load import load_settings
from jobqueue.config.model import KafkaSettings, SaslSettings
from jobqueue.config.secret import Secret
from jobqueue.errors import Unavailable
from jobqueue.events.publisher import check_kafka
from jobqueue.events.signals import RelayState
from jobqueue.store.pool import Pool
from tests.support.certificates import Authority, Pair, past
from tests.support.kafka import Listener, running_broker
from tests.support.kafka_way import Way
from tests.support.programs import dry_run
from tests.support.relays import all_arrive, relaying_to, run_jobs
from tests.support.store import add_queue
from tests.support.waiting import eventually

TOPIC = "events-tls"
NOT_TRUSTED = (
    r"SSL handshake failed: .*certificate verify failed"
    r"|SSL routines::certificate verify failed .*in state SSL_HANDSHAKE"
)
"""The library has two ways to say that the broker's certificate is no good, and says either."""


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def mine(authority: Authority) -> Pair:
    return authority.issue("jq-server")


def options_of(authority: Authority, pair: Pair | None) -> dict[str, str]:
    options = {"ssl.ca.location": str(authority.path)}
    if pair is None:
        return options
    own = {"ssl.certificate.location": str(pair.cert), "ssl.key.location": str(pair.key)}
    return options | own


@pytest.fixture
def secure(authority: Authority, mine: Pair) -> Iterator[tuple[Way, Listener]]:
    """A way that ends TLS in front of a broker of its own, and one who listens through it."""
    door = authority.server()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(door.cert, door.key)
    context.load_verify_locations(authority.path)
    context.verify_mode = ssl.CERT_REQUIRED
    own = {"security.protocol": "SSL", **options_of(authority, mine)}
    with running_broker() as broker:
        way = Way(broker, context)
        way.open()
        broker.create_topic(TOPIC, own)
        listener = Listener(broker, TOPIC, own)
        yield way, listener
        listener.close()
        way.close()


def settings(way: Way, options: dict[str, str]) -> KafkaSettings:
    env = {"JQ_KAFKA_SECURITY_PROTOCOL": "ssl", "JQ_KAFKA_OPTIONS": json.dumps(options)}
    given = load_settings(flags={}, env=env, path=None).settings.kafka
    return replace(given, brokers=way.settings(TOPIC).brokers, topic=TOPIC)


async def test_events_arrive_through_tls_with_a_certificate_of_the_server(
    pool: Pool, secure: tuple[Way, Listener], authority: Authority, mine: Pair
) -> None:
    way, listener = secure
    kafka = settings(way, options_of(authority, mine))
    async with relaying_to(pool, kafka):
        await add_queue(pool)
        await run_jobs(pool, 20)
        await all_arrive(pool, listener)


async def test_a_relay_whose_certificate_ended_goes_on_with_the_next(
    pool: Pool, secure: tuple[Way, Listener], authority: Authority, mine: Pair
) -> None:
    way, listener = secure
    good = authority.issue("renewed")
    async with relaying_to(pool, settings(way, options_of(authority, mine))) as relay:
        await add_queue(pool)
        await run_jobs(pool, 5)
        await all_arrive(pool, listener)
        mine.become(authority.issue("ended", until=past()))
        way.cut()
        way.open()
        relay._publisher.abandon()  # as after the first record that did not arrive
        await run_jobs(pool, 5)

        async def fails() -> bool:
            return relay.state is RelayState.FAILING

        await eventually(fails, within_s=60, what="a broker that refuses the certificate")
        mine.become(good)
        await all_arrive(pool, listener, within_s=60)


async def test_without_a_certificate_or_under_another_authority_the_broker_is_not_reached(
    secure: tuple[Way, Listener], authority: Authority, mine: Pair, tmp_path: Path
) -> None:
    way, _ = secure
    stranger = Authority(tmp_path, "stranger")
    with pytest.raises(Unavailable):
        await check_kafka(settings(way, options_of(authority, None)))
    with pytest.raises(Unavailable, match=NOT_TRUSTED):
        await check_kafka(settings(way, options_of(stranger, mine)))
    assert "1 brokers" in await check_kafka(settings(way, options_of(authority, mine)))


async def test_a_refused_login_is_told_without_the_password() -> None:
    with running_broker("--authentication") as broker, closing(Way(broker)) as way:
        way.open()
        kafka = replace(
            way.settings(TOPIC),
            security_protocol="SASL_PLAINTEXT",
            sasl=SaslSettings("SCRAM-SHA-256", "nobody", Secret("hunter2")),
        )
        with pytest.raises(Unavailable, match=r"SASL SCRAM authentication failed") as caught:
            await check_kafka(kafka)
    assert "hunter2" not in str(caught.value)


def test_a_dry_run_refuses_an_option_that_does_not_exist_and_shows_no_value(database: str) -> None:
    options = '{"ssl.key.pasword": "hunter2"}'
    told = dry_run(db_url=database, kafka_brokers="127.0.0.1:1", kafka_options=options)
    assert told.returncode == 2
    assert b'kafka.options: No such configuration property: "ssl.key.pasword"' in told.stderr
    assert b"hunter2" not in told.stdout + told.stderr
