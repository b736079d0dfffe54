"""The name of a database, by which servers know that they share it."""

from itertools import count
from typing import Any

import pytest

from jobqueue.store.pool import Connection, Pool, create_pool
from jobqueue.store.statements import statement
from jobqueue.submission.system import System
from tests.support.postgres import Cluster
from tests.support.waiting import HANG_S


async def test_a_database_has_one_name_and_no_other_has_it(pg: Cluster, pool: Pool) -> None:
    name = await System(pool).identity()
    assert await System(pool).identity() == name
    dsn = await pg.create_database()
    other = await create_pool(dsn, size=1, connect_timeout_s=HANG_S)
    assert await System(other).identity() != name
    await other.close()
    await pg.drop_database(dsn)


async def test_an_ordinary_role_may_ask_for_it(pool: Pool, conn: Connection) -> None:
    await conn.execute("DROP ROLE IF EXISTS jq_ordinary")
    await conn.execute("CREATE ROLE jq_ordinary")
    async with pool.acquire() as connection:
        await connection.execute("SET ROLE jq_ordinary")
        assert await connection.fetchval(statement("identify_database"))
        await connection.execute("RESET ROLE")
    await conn.execute("DROP ROLE jq_ordinary")


async def test_an_identity_that_does_not_come_in_time_is_asked_for_again(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, tries = pool.fetchval, count(1)

    async def late_once(query: str, **how: Any) -> Any:
        if next(tries) == 1:
            raise TimeoutError
        return await ask(query, **how)

    monkeypatch.setattr(pool, "fetchval", late_once)
    assert await System(pool).identity()
    assert next(tries) == 3
