"""`kilauea scancel`: ends jobs, like Slurm's command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kilauea.cli.inputs import Failure
from kilauea.cli.jobs.reading import access_options

if TYPE_CHECKING:
    from kilauea.api.ports import Api
    from kilauea.cli.vcctl.cluster import Cluster

EXAMPLES = """\b
Examples:
  kilauea scancel train-x7k2q
  kilauea scancel --me -t pending
  kilauea scancel -n train -p research
"""


@click.command(short_help="End jobs.", epilog=EXAMPLES)
@click.argument("jobs", nargs=-1, metavar="[JOB]...")
@click.option("-n", "--name", "names", multiple=True, metavar="NAME[,NAME]", help="Jobs with these names.")
@click.option("-u", "--user", "users", multiple=True, metavar="USER[,USER]", help="Jobs of these users.")
@click.option("--me", is_flag=True, help="Your jobs.")
@click.option("-p", "--partition", "queues", multiple=True, metavar="QUEUE[,QUEUE]", help="Jobs in these queues.")
@click.option("-t", "--state", "states", multiple=True, metavar="STATE[,STATE]", help="Jobs in these states.")
@click.option("-v", "--verbose", is_flag=True, help="Print the name of each job.")
@access_options
def scancel(
    jobs: tuple[str, ...],
    names: tuple[str, ...],
    users: tuple[str, ...],
    me: bool,
    queues: tuple[str, ...],
    states: tuple[str, ...],
    verbose: bool,
    namespace: str,
    all_namespaces: bool,
    kubeconfig: str,
) -> None:
    """End the named jobs, or those that match all options.

    Their pods get SIGTERM and their grace period. The jobs stay in the cluster as CANCELLED, for `kilauea sacct`;
    `vcancel` deletes a job. One element of an array cannot be ended alone.
    """
    from kilauea.cli.inputs import Usage
    from kilauea.cli.jobs import reading
    from kilauea.cli.jobs.manifest import user_name
    from kilauea.cli.jobs.records import ACTIVE

    if not (jobs or names or users or me or queues or states):
        raise Usage("name a job, or select jobs with --name, --user, --me, --partition or --state")
    for job in jobs:
        if "_" in job:
            raise Usage(f"{job}: one element of an array cannot be ended alone: end job {job.partition('_')[0]}")

    async def end(api: Api, cluster: Cluster) -> None:
        shown = reading.states_of_words(reading.words_of(states), ACTIVE)
        wanted = reading.words_of(users) | ({user_name()} if me else frozenset())
        named = reading.words_of(names)
        filters = (frozenset(jobs), wanted, reading.words_of(queues))
        records = await reading.read_records(api, reading.namespace_of(cluster, namespace, all_namespaces))
        chosen = [each for each in records if reading.takes(each, *filters) and (not named or each.name in named)]
        missing = sorted(set(jobs) - {each.job for each in chosen})
        for key in dict.fromkeys((each.namespace, each.job) for each in chosen if each.state in shown):
            await _end(api, *key)
            if verbose:
                click.echo(f"scancel: ending job {key[1]}", err=True)
        if missing:
            raise Failure(f"job {missing[0]} does not exist{_and_more(missing)}: see kilauea squeue")

    reading.with_cluster(kubeconfig, "kilauea-scancel", end)


def _and_more(missing: list[str]) -> str:
    return f", nor do {len(missing) - 1} more" if len(missing) > 1 else ""


async def _end(api: Api, namespace: str, name: str) -> None:
    from kilauea.api.kinds import VC_JOBS
    from kilauea.api.ports import Key
    from kilauea.cli.vcctl.orders import order

    await order(api, VC_JOBS, Key(namespace, name), "TerminateJob")
