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

_WIDTHS = (max(map(len, Check)), max(map(len, (*Verdict, "VERDICT"))))


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
        _print(findings)
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


def _print(findings: Iterable[Finding]) -> None:
    """Print a row as each check ends, then, also of a check-up that breaks off, what to do."""
    heading = _row("CHECK", "VERDICT", "FOUND")
    told: list[Finding] = []
    try:
        for each in findings:
            told.append(each)
            print_table(heading, [_row(each.check, each.verdict, each.found)])
            heading = ()
    finally:
        for each in told:
            _explain(each)


def _row(check: str, verdict: str, found: str) -> Sequence[str]:
    """Return a row as wide as all others, which are not known yet."""
    return (cell(check).ljust(_WIDTHS[0]), cell(verdict).ljust(_WIDTHS[1]), cell(found))


def _explain(finding: Finding) -> None:
    if finding.examples or finding.advice:
        print_line(f"\n{cell(finding.check)}:")
        for example in finding.examples:
            print_line(f"  {cell(example)}")
        print_line(f"  {cell(finding.advice)}")
