"""``jq-ctl completion``: what a shell needs to complete commands and flags."""

import click
from click.shell_completion import get_completion_class

from jobqueue.cli.ctl.commands import Verb

PROGRAM, COMPLETE = "jq-ctl", "_JQ_CTL_COMPLETE"


@click.command(
    cls=Verb,
    examples=[
        'eval "$(jq-ctl completion bash)"     # in ~/.bashrc',
        'eval "$(jq-ctl completion zsh)"      # in ~/.zshrc',
        "jq-ctl completion fish > ~/.config/fish/completions/jq-ctl.fish",
    ],
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell."""
    kind = get_completion_class(shell)
    assert kind is not None, "click knows these three"
    script = kind(ctx.find_root().command, {}, PROGRAM, COMPLETE)
    # Not source(): that starts a shell to learn its version, which need not be installed here.
    click.echo(script.source_template % script.source_vars())
