"""`kilauea squeue`: waiting and running jobs, in the format of Slurm's command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kilauea.cli.jobs.reading import access_options

if TYPE_CHECKING:
    from kilauea.api.ports import Api
    from kilauea.cli.vcctl.cluster import Cluster

EXAMPLES = """\b
Examples:
  kilauea squeue
  kilauea squeue --me -t pending -o '%i %r'
  kilauea squeue -p research --json
"""


@click.command(short_help="Show jobs that wait or run.", epilog=EXAMPLES)
@click.option("-j", "--jobs", multiple=True, metavar="JOB[,JOB]", help="Only these jobs.")
@click.option("-u", "--user", "users", multiple=True, metavar="USER[,USER]", help="Only jobs of these users.")
@click.option("-n", "--name", "names", multiple=True, metavar="NAME[,NAME]", help="Only jobs with these names.")
@click.option("--me", is_flag=True, help="Only your jobs.")
@click.option("-p", "--partition", "queues", multiple=True, metavar="QUEUE[,QUEUE]", help="Only jobs in these queues.")
@click.option(
    "-t",
    "--states",
    multiple=True,
    metavar="STATE[,STATE]",
    help="Only jobs in these states, or all. [default: those that have not ended]",
)
@click.option("-o", "--format", "form", default="", metavar="FORMAT", help="Columns, such as '%i %.10M %R'.")
@click.option("-h", "--noheader", is_flag=True, help="Do not print the headings.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@access_options
@click.help_option("--help")
def squeue(
    jobs: tuple[str, ...],
    users: tuple[str, ...],
    names: tuple[str, ...],
    me: bool,
    queues: tuple[str, ...],
    states: tuple[str, ...],
    form: str,
    noheader: bool,
    as_json: bool,
    namespace: str,
    all_namespaces: bool,
    kubeconfig: str,
) -> None:
    """Show waiting and running jobs, with the reasons why jobs wait.

    JOBID is the name of a job. PARTITION is its queue. USER is known for jobs that `kilauea run` and `kilauea batch`
    submit. Waiting elements of an array share one line.
    """
    from kilauea.cli.jobs import columns, reading
    from kilauea.cli.jobs.manifest import user_name
    from kilauea.cli.jobs.records import ACTIVE
    from kilauea.cli.vcctl.cluster import now

    async def show(api: Api, cluster: Cluster) -> None:
        shown = reading.states_of_words(reading.words_of(states), ACTIVE)
        wanted = reading.words_of(users) | ({user_name()} if me else frozenset())
        records = await reading.read_records(api, reading.namespace_of(cluster, namespace, all_namespaces))
        chosen = (reading.words_of(jobs), wanted, reading.words_of(queues))
        named = reading.words_of(names)
        found = [each for each in records if each.state in shown and reading.takes(each, *chosen)]
        found = [each for each in found if not named or each.name in named]
        if as_json:
            print_json([columns.record_data(each, now()) for each in found])
            return
        lines = columns.squeue_lines(form or columns.SQUEUE_FORMAT, found, now(), heading=not noheader)
        click.echo("".join(f"{line}\n" for line in lines), nl=False)

    reading.with_cluster(kubeconfig, "kilauea-squeue", show)


def print_json(jobs: list[dict[str, object]]) -> None:
    """Print jobs as JSON."""
    from kilauea.cli.data_text import json_text

    click.echo(json_text({"jobs": jobs}))
