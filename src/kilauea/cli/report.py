"""`kilauea report`: totals over the history of a cluster."""

from __future__ import annotations

from pathlib import Path

import click

from kilauea.cli.histories.moments import Moment
from kilauea.cli.histories.source import Source, source_options

EXAMPLES = """\b
Examples:
  kilauea report usage --by queue --since 7d -A
  kilauea report usage --by user --since 2026-11-01 --until 2026-12-01 -A -o csv
"""


@click.group(short_help="Report resource usage.", epilog=EXAMPLES)
def report() -> None:
    """Add up the history of a cluster."""


@report.command()
@click.option(
    "--by",
    type=click.Choice(["queue", "namespace", "user"]),
    default="queue",
    show_default=True,
    help="Group the usage by this.",
)
@click.option("--since", type=Moment(), default="7d", show_default=True, metavar="TIME", help="Start of the period.")
@click.option("--until", type=Moment(), metavar="TIME", help="End of the period. [default: now]")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="Output format: hours in a table, seconds as data.",
)
@source_options
def usage(
    by: str,
    since: int,
    until: int | None,
    output: str,
    namespace: str,
    all_namespaces: bool,
    data: Path | None,
    kubeconfig: str,
) -> None:
    """Show the resource-hours of queues, namespaces or users.

    A pod counts with its requests, from its bind to its end, within the selected period.
    """
    from kilauea.cli.histories import output as forms
    from kilauea.cli.histories.notes import note_limits
    from kilauea.cli.history import times

    source = Source(kubeconfig, data, namespace, all_namespaces)
    found = source.usage({"by": by, **times(since, until)})
    if output == "json":
        import msgspec

        from kilauea.cli.data_text import escaped_json

        click.echo(escaped_json(msgspec.json.format(msgspec.json.encode(forms.usage_data(found)), indent=2).decode()))
        return
    if output == "csv":
        click.echo(forms.usage_csv(found), nl=False)
        return
    click.echo("".join(f"{line}\n" for line in forms.usage_lines(found)), nl=False)
    if not found.rows:
        click.echo("no usage in this period", err=True)
    note_limits(found.since, found.gaps, since)
