"""The kinds of commands: every one takes the global flags at any place and shows examples."""

from collections.abc import Sequence
from typing import Any

import click

from jobqueue.cli.ctl.options import global_options


def _write_examples(formatter: click.HelpFormatter, examples: Sequence[str]) -> None:
    if examples:
        with formatter.section("Examples"):
            for example in examples:
                formatter.write(f"  {example}\n")


class Verb(click.Command):
    """A command that does something."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples
        self.params.extend(global_options(hidden=True))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's interface
        """Write the examples, and where the global flags are told."""
        _write_examples(formatter, self.examples)
        formatter.write("\nGlobal flags (--server-addr, --output, …): see jq-ctl --help\n")


class Noun(click.Group):
    """A group of commands; without a command it shows its help on stderr and exits with 2."""

    command_class = Verb

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples
        self.no_args_is_help = False
        self.params.extend(global_options(hidden=True))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Show the help when nothing at all was asked for."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's interface
        """Write the examples."""
        _write_examples(formatter, self.examples)
