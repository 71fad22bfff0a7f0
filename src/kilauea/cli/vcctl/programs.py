"""Entry points of the programs `vcctl`, `vsub`, `vjobs`, `vqueues`, `vcancel`, `vsuspend` and `vresume`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kilauea.cli.vcctl import job, options
from kilauea.cli.vcctl.command import Group, Leaf, with_version
from kilauea.cli.vcctl.flow import flow_group, template_group
from kilauea.cli.vcctl.pod import pod_group
from kilauea.cli.vcctl.queue import queue_group
from kilauea.cli.version import print_version

if TYPE_CHECKING:
    from kilauea.cli.vcctl.cluster import Cluster


def vcctl() -> None:
    """Manage jobs, queues, flows and their pods."""
    vcctl_command().main(prog_name="vcctl")


def vsub() -> None:
    """Submit a job."""
    vsub_command().main(prog_name="vsub")


def vjobs() -> None:
    """Show jobs."""
    vjobs_command().main(prog_name="vjobs")


def vqueues() -> None:
    """Show queues."""
    vqueues_command().main(prog_name="vqueues")


def vcancel() -> None:
    """Delete a job."""
    vcancel_command().main(prog_name="vcancel")


def vsuspend() -> None:
    """Abort a job; it can be resumed."""
    vsuspend_command().main(prog_name="vsuspend")


def vresume() -> None:
    """Resume a job."""
    vresume_command().main(prog_name="vresume")


# --- their commands


def vcctl_command() -> Group:
    """The program `vcctl` with all its groups."""
    groups = [job.job_group(), queue_group(), flow_group(), template_group(), pod_group()]
    program = Group(
        "vcctl",
        "Manage Volcano's jobs, queues and flows from the command line.",
        [*groups, Leaf("version", _version, "print the version", []), _help_command()],
        strict=True,
    )
    return with_version(program)


def _version(cluster: Cluster) -> None:
    print_version()


def _help_command() -> click.Command:
    @click.command("help", help="show the help of a command", context_settings={"ignore_unknown_options": True})
    @click.argument("words", nargs=-1)
    @click.pass_context
    def show(ctx: click.Context, words: tuple[str, ...]) -> None:
        assert ctx.parent is not None
        at, command = ctx.parent, ctx.parent.command
        for word in words:
            found = command.get_command(at, word) if isinstance(command, click.Group) else None
            if found is None:
                break
            at = click.Context(found, parent=at, info_name=word, **found.context_settings)
            command = found
        click.echo(command.get_help(at))

    return show


def vsub_command() -> Leaf:
    """`vsub`; environment variables set defaults."""
    given = job.run_options("-n", "-N", environment=True)
    return with_version(Leaf("vsub", _submit, "submit a job", given, "submit job"))


async def _submit(cluster: Cluster, name: str, namespace: str, wait: bool, timeout: int, **given: Any) -> int:
    return await job.run(cluster, name, namespace, "", wait, timeout, **given)


def vjobs_command() -> Leaf:
    """`vjobs`: show a job or a list of jobs."""
    given = [
        options.name("-n"),
        options.namespace("-N"),
        options.text("-S", "--scheduler", help="Only jobs of this scheduler.", metavar="NAME"),
        options.text("-q", "--queue", help="Only jobs in this queue.", metavar="NAME"),
        options.flag("--all-namespaces", help="List jobs in all namespaces."),
        options.text("--selector", help="Only jobs with this text in their name."),
        options.text("--phase", help="Only jobs in one of these phases.", metavar="PHASE[,PHASE]"),
        *options.listing(),
    ]
    return with_version(Leaf("vjobs", _jobs, "view job information", given, "view jobs"))


async def _jobs(cluster: Cluster, name: str, namespace: str, output: str, **given: Any) -> None:
    if name:
        await job.view(cluster, name, namespace, output if output in ("json", "yaml") else "text", conditions=False)
    else:
        await job.list_jobs(cluster, namespace, output=output, rows_or_nothing=False, **given)


def vqueues_command() -> Leaf:
    """`vqueues`: show a queue or all queues."""
    given = [options.name("-n"), *options.listing()[:2]]
    return with_version(Leaf("vqueues", _queues, "view queue information", given, "view queues"))


async def _queues(cluster: Cluster, name: str, output: str, no_headers: bool) -> None:
    from kilauea.cli.vcctl.queue import show
    from kilauea.cli.vcctl.queue_list import SHORT, queue_row, read_queues
    from kilauea.cli.vcctl.tables import print_table

    async with cluster.connect() as api:
        entries = await read_queues(api, name)
    if output == "table":
        print_table(SHORT, [queue_row(entry, SHORT) for entry in entries], not no_headers)
    else:
        show(entries, output, not no_headers)


def _about_a_job(name: str, function: Any, help: str, until: str) -> Leaf:
    given = [options.name("-n"), options.namespace("-N"), *options.waiting(until)]
    return with_version(Leaf(name, function, help, given, help.replace(" a ", " ")))


def vcancel_command() -> Leaf:
    """`vcancel`."""
    return _about_a_job("vcancel", _cancel, "cancel a job", "the job is deleted")


async def _cancel(cluster: Cluster, name: str, namespace: str, wait: bool, timeout: int) -> None:
    await job.delete(cluster, name, namespace, wait, timeout, done="cancel")


def vsuspend_command() -> Leaf:
    """`vsuspend`."""
    return _about_a_job("vsuspend", job.suspend, "suspend a job", "the job is Aborted")


def vresume_command() -> Leaf:
    """`vresume`."""
    return _about_a_job("vresume", job.resume, "resume a job", "the job has resumed")
