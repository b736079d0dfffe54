"""`jq-server`: the control plane. Parses flags, calls wiring, prints.

What loads a driver or a server is imported by the command that needs it: `--help` must be instant.
"""

import os
import sys
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

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
from jobqueue.cli.version import print_version
from jobqueue.config.load import Loaded, load_settings
from jobqueue.config.model import Settings
from jobqueue.errors import JobQueueError, SettingsError
from jobqueue.runtime.descriptors import allow_many_descriptors
from jobqueue.runtime.grpc_environment import prepare_grpc
from jobqueue.wiring.options import EmbeddedChoice

T = TypeVar("T")

_PROGRAM = "jq-server"


@dataclass(frozen=True, slots=True)
class Flags:
    """What was given on the command line before a subcommand."""

    config: Path | None
    grpc_port: int | None
    metrics_port: int | None
    health_port: int | None
    log_level: str | None
    embedded: bool
    data_dir: Path | None

    def choice(self) -> EmbeddedChoice | None:
        """Return which private PostgreSQL to run, if any."""
        return EmbeddedChoice(self.data_dir) if self.embedded else None


@click.group(
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 ended as asked; 1 could not start, or a check failed; 2 bad setting.",
)
@click.option("--config", type=FILE, help="YAML file of settings.")
@click.option("--grpc-port", type=int, help="Port of the gRPC services; 0: any.  [default: 50051]")
@click.option("--metrics-port", type=int, help="Port of /metrics; 0: any.  [default: 9090]")
@click.option("--health-port", type=int, help="Port of /healthz and /readyz.  [default: 8080]")
@click.option("--log-level", type=LEVELS, help="Least level that is logged.  [default: info]")
@click.option(
    "--dry-run", is_flag=True, help="Check settings, database, Redis and Kafka; start nothing."
)
@click.option("--embedded", is_flag=True, help="Run a private PostgreSQL: nothing else is needed.")
@click.option("--data-dir", type=FOLDER, help="Where the private PostgreSQL keeps its data.")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=print_version,
    help="Print version and commit.",
)
@click.pass_context
def cli(  # noqa: PLR0913 - one argument per flag
    context: click.Context,
    *,
    config: Path | None,
    grpc_port: int | None,
    metrics_port: int | None,
    health_port: int | None,
    log_level: str | None,
    dry_run: bool,
    embedded: bool,
    data_dir: Path | None,
) -> None:
    """Serve the job queue: submissions, administration, reaping, scheduling.

    Settings come from flags, then JQ_* variables, then --config, then defaults. The server applies
    migrations when it starts and runs no jobs itself; those need jq-worker.

    \b
    Examples:
      jq-server --embedded
      JQ_DB_PASSWORD=… jq-server --config server.yaml
      jq-server --config server.yaml --dry-run
    """  # noqa: D301 - click knows a paragraph to keep by a real \b
    if data_dir is not None and not embedded:
        raise click.UsageError("--data-dir needs --embedded")
    flags = Flags(config, grpc_port, metrics_port, health_port, log_level, embedded, data_dir)
    if dry_run and context.invoked_subcommand:
        raise click.UsageError("--dry-run does not go with a subcommand")
    if context.invoked_subcommand:
        context.obj = flags
    elif dry_run:
        _dry_run(flags)
    else:
        _serve(flags)


@cli.command("migrate")
@click.option("--revision", default="head", show_default=True, help="Schema revision to reach.")
@click.pass_obj
def migrate_command(flags: Flags, revision: str) -> None:
    """Bring the schema of the database to a revision, and end.

    The flags of jq-server that say which database come before the word migrate.
    """
    from jobqueue.wiring.serve import migrate_only  # noqa: PLC0415 - loads the server

    settings = _start_up(flags)
    _run(migrate_only(settings, revision, flags.choice()))


def _serve(flags: Flags) -> None:
    begin()
    from jobqueue.wiring.serve import serve  # noqa: PLC0415 - loads the server

    settings = _start_up(flags)
    allow_many_descriptors()
    _run(serve(settings, flags.choice()))


def _dry_run(flags: Flags) -> None:
    from jobqueue.config.describe import describe  # noqa: PLC0415 - loads the settings
    from jobqueue.wiring.serve import check_services, check_settings  # noqa: PLC0415 - the same

    loaded = _load(flags)
    for line in loaded.warnings:
        click.echo(f"warning: {line}", err=True)
    try:
        # Before they are shown: what hides secrets goes by names, which may be wrong until here.
        lines = check_settings(loaded.settings)
    except SettingsError as error:
        refuse(_PROGRAM, error)
    for key, value in describe(loaded.settings).items():
        click.echo(f"{key} = {value}")
    found = _run(check_services(loaded.settings, flags.choice()))
    lines += [f"{checked.service}: {checked.line}" for checked in found if not checked.error]
    click.echo("\n".join(lines))
    for checked in found:
        if checked.error:
            say_failed(f"{_PROGRAM}: {checked.service}", checked.error)
    if any(checked.error for checked in found):
        sys.exit(FAILED)


def _load(flags: Flags) -> Loaded:
    """Read settings; end the program when they cannot work."""
    given = {
        "grpc.port": flags.grpc_port,
        "metrics.port": flags.metrics_port,
        "health.port": flags.health_port,
        "logging.level": flags.log_level,
    }
    try:
        return load_settings(flags=given, env=os.environ, path=flags.config)
    except SettingsError as error:
        refuse(_PROGRAM, error)


def _start_up(flags: Flags) -> Settings:
    """Read settings, start to log, and say what an operator should know."""
    loaded = _load(flags)
    start_logging(_PROGRAM, loaded.settings, loaded.warnings)
    return loaded.settings


def _run(work: Coroutine[object, object, T]) -> T:
    """Run to the end on uvloop; an error of ours becomes one line and an exit code."""
    import uvloop  # noqa: PLC0415 - not for --help

    try:
        return uvloop.run(work)
    except SettingsError as error:
        refuse(_PROGRAM, error)
    except JobQueueError as error:
        say_failed(_PROGRAM, error)
        sys.exit(FAILED)


def main() -> None:
    """Run the program."""
    prepare_grpc()
    cli.main(prog_name=_PROGRAM)
