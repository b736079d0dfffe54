"""`jq-worker`: the data plane. Parses flags, calls wiring, prints.

What loads a driver or handlers is imported when a worker starts: `--help` must be instant.
"""

import os
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import click

from jobqueue.cli.common import (
    FAILED,
    FILE,
    FOLDER,
    LEVELS,
    begin,
    refuse,
    say_failed,
    start_logging,
)
from jobqueue.cli.connection import Connection, connection_options
from jobqueue.cli.version import print_version
from jobqueue.config.load import load_settings
from jobqueue.config.model import Settings
from jobqueue.config.ports import WORKER_PORTS
from jobqueue.domain.limits import MAX_CONCURRENCY
from jobqueue.errors import Fault, InvalidArgument, JobQueueError, SettingsError
from jobqueue.runtime.grpc_environment import prepare_grpc

_PROGRAM = "jq-worker"
LAST_PORT = 65_535
NO_PLACE = "-"
"""Of one of several processes that tells its parent nothing."""

LINGER_S = 5.0
"""What handlers have left in threads may hold up the end of a worker for so long."""


@dataclass(frozen=True, slots=True)
class Member:
    """What one of several processes knows of that.

    ``place``: where it tells what it runs; ``done``: its exit code for an end as asked.
    """

    place: str | None = None
    done: int = 0


ALONE = Member()


@dataclass(frozen=True, slots=True)
class Flags:
    """What was given on the command line. None: not given."""

    config: Path | None
    connection: Connection
    worker_id: str | None
    concurrency: int
    queues: tuple[str, ...]
    handlers: str | None
    processes: int | None
    prefetch: int | None
    allow_shell: bool
    embedded: bool
    data_dir: Path | None
    metrics_port: int | None
    health_port: int | None
    log_level: str | None

    def settings(self) -> Mapping[str, object]:
        """Return those flags that are settings, by key."""
        return {
            "worker.handlers": self.handlers,
            "worker.processes": self.processes,
            "worker.prefetch": self.prefetch,
            "worker.allow_shell": self.allow_shell or None,
            "metrics.port": self.metrics_port,
            "health.port": self.health_port,
            "logging.level": self.log_level,
        }


@dataclass(frozen=True, slots=True)
class Start:
    """How to start: the settings, and whether the way to jobs leads through a server."""

    settings: Settings
    remote: bool


def _names(_context: click.Context, _option: click.Parameter, text: str) -> tuple[str, ...]:
    """Return comma-separated names, each once, in the order given; an empty one is refused later.

    A name that is missing may be the one that mattered: ``--queues "$FIRST,$SECOND"``.
    """
    return tuple(dict.fromkeys(name.strip() for name in text.split(",")))


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 ended as asked; 1 could not start, or ended in a hurry; 2 bad setting;"
    " 3 a handler could not be ended. Signals: SIGTERM or SIGINT ends it, a second one at once;"
    " SIGUSR1 drains it.",
)
@click.pass_obj
@click.option("--config", type=FILE, help="YAML file of settings.")
@connection_options
@click.option(
    "--worker-id",
    help="Name no other running worker has.  [default: host, process id, random suffix]",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, MAX_CONCURRENCY),
    default=4,
    show_default=True,
    help="Jobs that run at once, per process.",
)
@click.option(
    "--queues",
    default="default",
    show_default=True,
    metavar="Q1,Q2",
    callback=_names,
    help="Queues to serve.",
)
@click.option("--handlers", metavar="MODULE,…", help="Python modules that declare handlers.")
@click.option("--processes", type=int, help="Worker processes.  [default: 1]")
@click.option("--prefetch", type=int, help="Jobs held ready beyond the running.  [default: 0]")
@click.option("--allow-shell", is_flag=True, help="Run jobs of type shell by /bin/sh -c.")
@click.option("--embedded", is_flag=True, help="Join the database of jq-server --embedded.")
@click.option("--data-dir", type=FOLDER, help="Where that database keeps its data.")
@click.option(
    "--metrics-port",
    type=int,
    help="Port of /metrics; process N of several adds N - 1; 0: any.  [default: 9091]",
)
@click.option(
    "--health-port",
    type=int,
    help="Port of /healthz and /readyz; process N of several adds N - 1.  [default: 8081]",
)
@click.option("--log-level", type=LEVELS, help="Least level that is logged.  [default: info]")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=print_version,
    help="Print version and commit.",
)
def cli(member: Member | None, /, **given: Any) -> None:
    """Claim jobs, run their handlers, record what came of them.

    Settings come from flags, then JQ_* variables, then --config, then defaults. A worker claims
    from PostgreSQL when db.* settings or --embedded are given, else through jq-server when
    --server-addr is. It needs something to run: handlers, worker.commands or --allow-shell.

    \b
    Examples:
      jq-worker --embedded --handlers myapp.jobs
      JQ_DB_PASSWORD=… jq-worker --config worker.yaml --queues mail,reports --concurrency 20
      jq-worker --embedded --allow-shell --processes 4
      jq-worker --server-addr queue.example:50051 --tls-ca ca.pem --handlers myapp.jobs
    """  # noqa: D301 - click knows a paragraph to keep by a real \b
    flags = Flags(connection=Connection.taken_from(given), **given)
    if flags.data_dir is not None and not flags.embedded:
        raise click.UsageError("--data-dir needs --embedded")
    begin()
    # Like `python -m`: handlers live where the worker is started.
    sys.path.insert(0, str(Path.cwd()))
    _exit(_start(flags, member or ALONE))


def _start(flags: Flags, member: Member) -> int:
    try:
        return _work(flags, _start_up(flags), member)
    except SettingsError as error:
        refuse(_PROGRAM, error)
    except InvalidArgument as error:
        raise click.UsageError(str(error)) from error
    except JobQueueError as error:
        say_failed(_PROGRAM, error)
        return FAILED


def _start_up(flags: Flags) -> Start:
    """Read settings, start to log, and say what an operator should know."""
    loaded = load_settings(
        flags=flags.settings(), env=os.environ, path=flags.config, ports=WORKER_PORTS
    )
    direct, server = flags.embedded or loaded.sets("db"), flags.connection.server_addr
    if not direct and not server:
        raise click.UsageError(
            "no way to jobs: set db.* (JQ_DB_URL, JQ_DB_HOST, …), give --embedded, or name a"
            " server with --server-addr"
        )
    both = ["claiming directly from PostgreSQL; --server-addr is not used"]
    start_logging(
        _PROGRAM, loaded.settings, (*loaded.warnings, *(both if direct and server else []))
    )
    return Start(loaded.settings, remote=not direct)


def _work(flags: Flags, start: Start, member: Member) -> int:
    from jobqueue.wiring.early_probes import early_probes  # noqa: PLC0415 - not for --help
    from jobqueue.wiring.options import EmbeddedChoice  # noqa: PLC0415 - the same
    from jobqueue.wiring.pod_cost import listener, open_board  # noqa: PLC0415 - the same
    from jobqueue.wiring.worker import (  # noqa: PLC0415 - loads the driver
        WorkerChoice,
        build_registry,
        check_choice,
        work,
        work_in_processes,
    )

    settings = start.settings
    embedded = EmbeddedChoice(flags.data_dir) if flags.embedded else None
    route = flags.connection.route() if start.remote else None
    choice = WorkerChoice(flags.worker_id, flags.queues, flags.concurrency, embedded, route)
    check_choice(choice)
    choice = replace(choice, tells=listener(member.place, settings.worker, os.environ))
    if settings.worker.processes == 1:
        with early_probes(settings.health.port) as probed:
            registry = build_registry(settings)
        return _run(work(settings, choice, registry, probed), member.done)
    board = open_board(settings.worker)
    commands = _commands(flags, settings, board.place if board else lambda _: None)
    if flags.worker_id is not None:
        check_choice(replace(choice, worker_id=commands[-1][-1]))
    return _run(work_in_processes(settings, choice, commands, board), member.done)


def _commands(
    flags: Flags, settings: Settings, place: Callable[[int], str | None]
) -> list[Sequence[str]]:
    """Return one command line per child: ours, but each for one process with its own name."""
    argv = [sys.executable, "-m", "jobqueue.cli.worker_process", str(os.getpid())]
    flags_of_all = [*sys.argv[1:], "--processes", "1"]
    return [
        [*argv, place(i) or NO_PLACE, *flags_of_all, *_ports(settings, i), *_name(flags, i)]
        for i in range(settings.worker.processes)
    ]


def _ports(settings: Settings, i: int) -> Sequence[str]:
    """Return the ports of process ``i``, counted from 0. Raises SettingsError beyond the last."""
    health = _port("health.port", settings.health.port, i)
    metrics = _port("metrics.port", settings.metrics.port, i)
    apart = abs(settings.health.port - settings.metrics.port)
    if health and metrics and apart < settings.worker.processes:
        fault = f"is {apart} beside health.port; {settings.worker.processes} processes need more"
        raise SettingsError([Fault("metrics.port", fault)])
    return "--health-port", str(health), "--metrics-port", str(metrics)


def _port(key: str, first: int, i: int) -> int:
    if first + i > LAST_PORT:
        raise SettingsError([Fault(key, f"leaves no port for process {i + 1}")])
    return first + i if first else 0


def _name(flags: Flags, i: int) -> Sequence[str]:
    return () if flags.worker_id is None else ("--worker-id", f"{flags.worker_id}-{i + 1}")


def _run(work: Coroutine[Any, Any, int], done: int = 0) -> int:
    import uvloop  # noqa: PLC0415 - not for --help

    from jobqueue.runtime.guests import run_among_guests  # noqa: PLC0415 - the same
    from jobqueue.runtime.log import get_logger  # noqa: PLC0415 - the same

    async def ended() -> int:
        code = await work
        if code:
            # A handler that ignores its end would keep the loop, or the interpreter, from ending.
            _exit(code)
        _end_within(LINGER_S, done)
        return code

    def told(error: BaseException) -> None:
        get_logger(__name__).error("a handler tried to end the worker's loop", error=error)

    return run_among_guests(ended(), uvloop.new_event_loop, told)


def _exit(code: int) -> NoReturn:
    if not code:
        sys.exit(0)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _end_within(seconds: float, code: int) -> None:
    """End by then at the latest: the interpreter waits without end for what runs in threads.

    A handler that called ``asyncio.to_thread`` and was ended has left its call there.
    """
    last = threading.Timer(seconds, os._exit, (code,))
    last.daemon = True
    last.start()


def main(place: str = NO_PLACE, done: int = 0) -> None:
    """Run the program; one of several processes says what it knows of that (see ``Member``)."""
    prepare_grpc()
    cli.main(prog_name=_PROGRAM, obj=Member(None if place == NO_PLACE else place, done))


if __name__ == "__main__":
    main()
