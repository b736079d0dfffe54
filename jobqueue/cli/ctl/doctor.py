"""``jq-ctl doctor``: proves that the record of all jobs is whole."""

import sys
from collections.abc import Iterable, Iterator, Sequence

import click

from jobqueue.cli.ctl import views
from jobqueue.cli.ctl.commands import Verb
from jobqueue.cli.ctl.exit_codes import ExitCode
from jobqueue.cli.ctl.output import print_list, wants_table
from jobqueue.cli.ctl.session import open_client
from jobqueue.cli.ctl.text import cell, print_line, print_table, visible
from jobqueue.domain.checkup import ASKS, Check, CheckProgress, Finding, Verdict

_CHECKS = "\n".join(f"  {check:<13} {asks}?" for check, asks in ASKS.items())


@click.command(
    cls=Verb,
    help=f"""Prove from outside that the record of all jobs is whole.

    Looks at every job in pages, each in a short snapshot, and changes nothing; it is safe on a
    system at work. A million jobs take minutes. Exit code 1 when a check fails; warnings do not.

    \b
    Checks:
    {_CHECKS.replace(chr(10), chr(10) + "    ")}
    """,
    examples=[
        "jq-ctl doctor",
        "jq-ctl doctor --quick --output json",
        "jq-ctl doctor --check places --check status",
    ],
)
@click.option(
    "--check",
    "checks",
    multiple=True,
    type=click.Choice([str(check) for check in Check]),
    metavar="NAME",
    help="Run this check only; may be repeated.",
)
@click.option("--quick", is_flag=True, help="Walk the newest jobs only, count no whole table.")
@click.pass_context
def doctor(ctx: click.Context, checks: Sequence[str], *, quick: bool) -> None:
    """Run the checks and print what they find."""
    steps = open_client(ctx).doctor(checks, quick=quick)
    findings = _Findings(steps)
    if wants_table(ctx):
        _print(list(findings))
    else:
        print_list(ctx, "checks", map(views.finding, findings))
    if findings.failed:
        ctx.exit(ExitCode.FAILURE)


class _Findings:
    """The findings of a check-up as they come; progress goes to a terminal's stderr."""

    def __init__(self, steps: Iterable[CheckProgress | Finding]) -> None:
        self._steps = steps
        self.failed = False

    def __iter__(self) -> Iterator[Finding]:
        for step in self._steps:
            if isinstance(step, CheckProgress):
                _show(f"{visible(step.check)}: {step.seen:,} of about {step.about:,}")
                continue
            self.failed = self.failed or step.verdict is Verdict.FAIL
            _show("")
            yield step


def _show(progress: str) -> None:
    """Write over the last line of progress, where somebody watches."""
    if sys.stderr.isatty():
        click.echo(f"\r{progress:<79}\r", nl=False, err=True)


def _print(findings: Sequence[Finding]) -> None:
    rows = [(cell(each.check), cell(each.verdict), cell(each.found)) for each in findings]
    print_table(("CHECK", "VERDICT", "FOUND"), rows)
    for each in findings:
        if each.examples or each.advice:
            print_line(f"\n{cell(each.check)}:")
            for example in each.examples:
                print_line(f"  {cell(example)}")
            print_line(f"  {cell(each.advice)}")
