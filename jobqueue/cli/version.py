"""``--version`` of the three programs."""

import click


def print_version(context: click.Context, _option: click.Parameter, asked: bool) -> None:  # noqa: FBT001 - click's signature
    """Answer --version and end the program."""
    if asked and not context.resilient_parsing:
        from jobqueue.runtime.version import version_line  # noqa: PLC0415 - may ask git

        click.echo(version_line())
        context.exit()
