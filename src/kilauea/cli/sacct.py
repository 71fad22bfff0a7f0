"""`kilauea sacct`: running and ended jobs, in the format of Slurm's command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kilauea.cli.histories.moments import Moment
from kilauea.cli.jobs.reading import access_options

if TYPE_CHECKING:
    from kilauea.api.ports import Api
    from kilauea.cli.jobs.columns import Column
    from kilauea.cli.vcctl.cluster import Cluster

EXAMPLES = """\b
Examples:
  kilauea sacct
  kilauea sacct -j train-x7k2q --format JobID,State,ExitCode,NodeList
  kilauea sacct -s failed -P -n
"""


@click.command(short_help="Show jobs that run or have ended.", epilog=EXAMPLES)
@click.option("-j", "--jobs", multiple=True, metavar="JOB[,JOB]", help="Only these jobs.")
@click.option("-u", "--user", "users", multiple=True, metavar="USER[,USER]", help="Only jobs of these users.")
@click.option("-r", "--partition", "queues", multiple=True, metavar="QUEUE[,QUEUE]", help="Only jobs in these queues.")
@click.option("-s", "--state", "states", multiple=True, metavar="STATE[,STATE]", help="Only jobs in these states.")
@click.option(
    "-S",
    "--starttime",
    "since",
    type=Moment(),
    metavar="TIME",
    help="Include jobs deleted since then, such as 7d or 2026-11-01. [default: midnight]",
)
@click.option("-o", "--format", "form", default="", metavar="NAME,...", help="Columns, such as JobID,State,ExitCode.")
@click.option("-P", "--parsable2", is_flag=True, help="Separate columns by |, without padding.")
@click.option("-n", "--noheader", is_flag=True, help="Do not print the headings.")
@click.option("-X", "--allocations", is_flag=True, hidden=True, help="Jobs have no steps, so this is always so.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@access_options
def sacct(
    jobs: tuple[str, ...],
    users: tuple[str, ...],
    queues: tuple[str, ...],
    states: tuple[str, ...],
    since: int | None,
    form: str,
    parsable2: bool,
    noheader: bool,
    allocations: bool,
    as_json: bool,
    namespace: str,
    all_namespaces: bool,
    kubeconfig: str,
) -> None:
    """Show jobs with their states, times and exit codes.

    On a cluster that keeps a history (`kilauea up`), this includes jobs that were deleted since midnight or
    --starttime. On others, times and exit codes are those of existing pods. There are no job steps.
    """
    from kilauea.cli.histories.moments import midnight
    from kilauea.cli.jobs import columns, reading
    from kilauea.cli.jobs.past import deleted_jobs
    from kilauea.cli.jobs.records import STATES
    from kilauea.cli.squeue import print_json
    from kilauea.cli.vcctl.cluster import now

    async def show(api: Api, cluster: Cluster) -> None:
        chosen = columns.sacct_columns(form or columns.SACCT_FORMAT)
        shown = reading.states_of_words(reading.words_of(states), tuple(STATES))
        filters = (reading.words_of(jobs), reading.words_of(users), reading.words_of(queues))
        namespace_of = reading.namespace_of(cluster, namespace, all_namespaces)
        records = await reading.read_records(api, namespace_of)
        known = {(each.namespace, each.job, each.submitted or 0) for each in records}
        records += await deleted_jobs(cluster, namespace_of, midnight() if since is None else since, known)
        records.sort(key=lambda each: each.submitted or 0)
        found = [each for each in records if each.state in shown and reading.takes(each, *filters)]
        if as_json:
            print_json([columns.record_data(each, now()) for each in found])
            return
        rows = [[column.cell(each, now()) for column in chosen] for each in found]
        click.echo("".join(f"{line}\n" for line in _lines(chosen, rows, parsable2, noheader)), nl=False)

    reading.with_cluster(kubeconfig, "kilauea-sacct", show)


def _lines(chosen: list[Column], rows: list[list[str]], parsable: bool, noheader: bool) -> list[str]:
    """A table with a line of dashes below its heading, or cells separated by bars."""
    from kilauea.api.printing import printable

    titles = [column.title for column in chosen]
    cells = [[printable(cell) for cell in row] for row in rows]
    if parsable:
        return ["|".join(row) for row in ([] if noheader else [titles]) + cells]
    widths = [max(len(row[at]) for row in [titles, *cells]) for at in range(len(titles))]
    heading = [] if noheader else [titles, ["-" * width for width in widths]]
    return [
        " ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [*heading, *cells]
    ]
