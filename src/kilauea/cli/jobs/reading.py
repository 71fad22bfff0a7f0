"""Reading the jobs of a cluster for the Slurm-style commands, and the options that these share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kilauea.cli.inputs import Failure, Usage

if TYPE_CHECKING:
    from kilauea.api.ports import Api
    from kilauea.cli.jobs.records import Record
    from kilauea.cli.vcctl.cluster import Cluster

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])


def access_options(command: Command) -> Command:
    """Options that select the cluster and the namespace."""
    command = click.option("-k", "--kubeconfig", default="", metavar="FILE", help="Access to the cluster.")(command)
    command = click.option("--all-namespaces", is_flag=True, help="Jobs of all namespaces.")(command)
    return click.option("--namespace", default="", metavar="NAME", help="Namespace. [default: that of the kubeconfig]")(
        command
    )


def with_cluster(kubeconfig: str, agent: str, work: Callable[[Api, Cluster], Awaitable[T]]) -> T:
    """Run work on a cluster; errors become messages and exit codes.

    Raises:
        Usage: the cluster or an option is invalid.
        Failure: the server rejects a request.
    """
    from kilauea.api.ports import ApiError
    from kilauea.cli.api_errors import unread_cluster
    from kilauea.cli.vcctl.cluster import Cluster
    from kilauea.cli.vcctl.command import CommandError
    from kilauea.client.access import AccessError

    cluster = Cluster(kubeconfig, agent=agent)

    async def connected() -> T:
        async with cluster.connect() as api:
            return await work(api, cluster)

    try:
        return asyncio.run(connected())
    except (CommandError, AccessError) as error:
        raise Usage(str(error)) from error
    except ApiError as error:
        raise Failure(unread_cluster(error)) from error


async def read_records(api: Api, namespace: str) -> list[Record]:
    """The jobs of a namespace, or of all, in the order of their creation."""
    from kilauea.api.kinds import POD_GROUPS, PODS, VC_JOBS
    from kilauea.cli.jobs.copies import JOB_LABEL
    from kilauea.cli.jobs.records import records_of
    from kilauea.cli.vcctl.cluster import objects

    jobs = await objects(api, VC_JOBS, namespace)
    pods = await objects(api, PODS, namespace, labels=JOB_LABEL)
    groups = await objects(api, POD_GROUPS, namespace)
    jobs.sort(key=lambda job: str(job["metadata"].get("creationTimestamp")))  # stable: then by name
    return records_of(jobs, pods, groups)


def namespace_of(cluster: Cluster, namespace: str, all_namespaces: bool) -> str:
    """The namespace that options select; empty for all."""
    return "" if all_namespaces else namespace or cluster.access().namespace or "default"


def words_of(texts: tuple[str, ...]) -> frozenset[str]:
    """Words of a repeatable option that accepts lists."""
    return frozenset(word for text in texts for word in text.split(",") if word)


def takes(record: Record, jobs: frozenset[str], users: frozenset[str], queues: frozenset[str]) -> bool:
    """True if a record matches these jobs, users and queues; an empty set matches all."""
    return (
        (not jobs or record.job in jobs or record.id in jobs)
        and (not users or record.user in users)
        and (not queues or record.queue in queues)
    )


def states_of_words(words: frozenset[str], default: tuple[str, ...]) -> frozenset[str]:
    """States by their long or short names, or `all`.

    Raises:
        CommandError: a name is unknown.
    """
    from kilauea.cli.jobs.records import STATES
    from kilauea.cli.vcctl.command import CommandError

    if not words:
        return frozenset(default)
    if "all" in {word.lower() for word in words}:
        return frozenset(STATES)
    long = {short: state for state, short in STATES.items()}
    found = {long.get(word.upper(), word.upper()) for word in words}
    if unknown := sorted(found - STATES.keys()):
        raise CommandError(f'--states: "{unknown[0]}" is not known: use all, {", ".join(STATES)}')
    return frozenset(found)
