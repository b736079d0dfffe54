"""Our own server and workers in a cell: started, waited for in the tables, fed."""

from collections.abc import Sequence
from functools import partial

from bench.measure import SERVER, WORKERS
from bench.ours import remote_worker, server, worker
from bench.processes import Program, until
from bench.stage import BATCH_JOBS, Scene
from jobqueue.domain.job import JobSpec
from jobqueue.domain.limits import Limits
from jobqueue.store.pool import create_pool
from jobqueue.submission.submitter import Submitter

_START_S = 600.0
_ACTIVE = "SELECT count(*) FROM jobqueue.workers WHERE status = 'ACTIVE'"


async def start_server(scene: Scene, **settings: object) -> tuple[Program, str]:
    """Start a server that is ready; return it and its address."""
    program = await scene.start(server(scene.dsn, **settings), group=SERVER)
    return program, f"127.0.0.1:{(await program.ready())['grpc_port']}"


async def start_workers(
    scene: Scene, count: int, *flags: str, address: str = "", **settings: object
) -> Sequence[Program]:
    """Start workers, remote ones when there is an address; return once all are registered."""
    there = await scene.count(_ACTIVE)
    make = partial(remote_worker, address) if address else partial(worker, scene.dsn)
    launch = make(*flags, **settings)
    programs = [await scene.start(launch, group=WORKERS) for _ in range(count)]

    async def registered() -> bool:
        for program in programs:
            program.check()
        return await scene.count(_ACTIVE) >= there + count

    await until(registered, within_s=_START_S, what=f"{count} workers", pause_s=0.1)
    return programs


async def store(dsn: str, specs: Sequence[JobSpec]) -> None:
    """Submit in process, in batches, without waking anybody."""
    pool = await create_pool(dsn, size=1)
    try:
        submitter = Submitter(pool, Limits(), announce=lambda _queues: None)
        for begun in range(0, len(specs), BATCH_JOBS):
            await submitter.submit_many(specs[begun : begun + BATCH_JOBS])
    finally:
        await pool.close()
