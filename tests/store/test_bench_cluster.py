"""The harness's own PostgreSQL serves the next cell, whatever became of this one."""

import asyncio
from pathlib import Path
from tempfile import gettempdir

import pytest

from bench import cluster as module
from bench.cluster import running_cluster
from jobqueue.embedded.server import EmbeddedPostgres


@pytest.mark.timeout(300)
async def test_a_cluster_begins_with_used_segments_and_survives_a_restart_that_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folders: list[Path] = []
    start = EmbeddedPostgres.start

    def noted(server: EmbeddedPostgres) -> None:
        folders.append(server.data_dir)
        start(server)

    monkeypatch.setattr(EmbeddedPostgres, "start", noted)
    monkeypatch.setattr(module, "_SEGMENTS", 16)
    async with running_cluster(Path(gettempdir())) as cluster:
        (wal,) = folders[0].rglob("pg_wal")
        made = len(list(wal.glob("0*")))
        for _ in range(8):
            await cluster.leave_segment()
        assert len(list(wal.glob("0*"))) == made, "none is made anew"

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(cluster.restart(outage_s=3_600.0), timeout=0.5)
        assert len(folders) == 2, "it was started again"
        await cluster.drop(await cluster.create())
