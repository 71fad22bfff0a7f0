"""`kilauea batch`: submit a script with `#SBATCH` lines as a batch job, like `sbatch`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from kilauea.cli import slurm
from kilauea.cli.inputs import Failure, Usage

if TYPE_CHECKING:
    from kilauea.cli.jobs.script import Script
    from kilauea.cli.vcctl.cluster import Cluster

EXAMPLES = """\b
Examples:
  kilauea batch train.sh
  kilauea batch -p research --time 2:00:00 train.sh --epochs 10
  kilauea batch --array 0-99 --wrap './simulate $SLURM_ARRAY_TASK_ID'
  JOB=$(kilauea batch --parsable prepare.sh) && kilauea batch -d afterok:$JOB train.sh
"""
IGNORED: Mapping[str, str] = {
    "-A,--account": "queues have no accounts: name a queue with -p",
    "-q,--qos": "queues have no QOS: name a queue with -p, or a priority class in a manifest",
    "--mail-type": "the cluster sends no mail",
    "--mail-user": "the cluster sends no mail",
    "--comment": "jobs have no comments",
    "-C,--constraint": "nodes are chosen by labels, in a manifest",
    "-w,--nodelist": "nodes are chosen by labels, in a manifest",
    "-x,--exclude": "nodes are chosen by labels, in a manifest",
    "--nice": "the order of jobs comes from queues and priority classes",
    "--signal": "a copy gets SIGTERM before it is ended",
    "--begin": "a job starts when there is room; use a cron job for times",
    "--reservation": "queues have a guarantee instead",
    "-L,--licenses": "there are no licenses",
    "--distribution": "the scheduler places copies",
}
"""Options of `sbatch` with a value that have no effect, with the reasons."""
IGNORED_FLAGS: Mapping[str, str] = {
    "--exclusive": "a node is shared: ask for all its cpus",
    "--requeue": "a job that is evicted restarts",
    "--no-requeue": "a job that is evicted restarts",
    "-s,--oversubscribe": "cpus are not shared",
    "-H,--hold": "suspend the job with `vsuspend`",
}


def _ignored(command: Callable[..., Any]) -> Callable[..., Any]:
    for names, why in {**IGNORED, **IGNORED_FLAGS}.items():
        option = click.option(*names.split(","), is_flag=names in IGNORED_FLAGS, hidden=True, help=why)
        command = option(command)
    return command


@click.command(
    short_help="Submit a script with #SBATCH lines.",
    epilog=EXAMPLES,
    context_settings={"allow_interspersed_args": False},  # so that options of the script are passed to it
)
@click.option("-J", "--job-name", default="", metavar="NAME", help="Name of the job. [default: that of the script]")
@click.option("-p", "--partition", "--queue", default="", metavar="NAME", help="Queue. [default: the cluster's]")
@click.option("-n", "--ntasks", type=click.IntRange(1), help="Number of copies of the script. [default: 1]")
@click.option("-N", "--nodes", default="", metavar="NUMBER", help="Number of nodes, with one copy on each.")
@click.option("--ntasks-per-node", type=click.IntRange(1), help="Copies for each of the nodes.")
@click.option(
    "-c", "--cpus-per-task", "cpus", type=click.IntRange(1), default=1, show_default=True, help="CPUs of each copy."
)
@click.option("--mem", default="", metavar="AMOUNT", help="Memory on each node: 4000 (megabytes), 4G.")
@click.option("--mem-per-cpu", default="", metavar="AMOUNT", help="Memory for each CPU.")
@click.option("--gres", default="", metavar="gpu:NUMBER", help="GPUs on each node.")
@click.option("-G", "--gpus", default="", metavar="NUMBER", help="GPUs of all copies together.")
@click.option("--gpus-per-node", default="", metavar="NUMBER", help="GPUs on each node.")
@click.option("--gpus-per-task", default="", metavar="NUMBER", help="GPUs of each copy.")
@click.option(
    "-t",
    "--time",
    "limit",
    type=slurm.TimeLimit(),
    default=0,
    metavar="TIME",
    help="Time limit: 90 (minutes), 01:30:00, 1-12 (days-hours).",
)
@click.option(
    "-a", "--array", default="", metavar="ELEMENTS", help="A copy for each element: 0-99, 0-30:10, 1,3,7, 0-99%4."
)
@click.option(
    "-o",
    "--output",
    default="",
    metavar="FILE",
    help="File for the output, where pods run on this machine; with %j, %A, %a, %x, %u, %N. [default: the pod's log]",
)
@click.option("-e", "--error", default="", metavar="FILE", help="File for standard error. [default: that of -o]")
@click.option(
    "--open-mode",
    type=click.Choice(["truncate", "append"]),
    default="truncate",
    show_default=True,
    help="Truncate or append to existing output files.",
)
@click.option(
    "-d",
    "--dependency",
    default="",
    metavar="TYPE:JOB",
    help="Wait here until jobs have ended, then submit: afterok, afternotok, afterany or after, with one or more jobs.",
)
@click.option("--export", default="", metavar="NAMES", help="Variables to pass on: ALL, NONE or NAME[=VALUE],...")
@click.option("-D", "--chdir", default="", metavar="DIR", help="Working folder.")
@click.option("-W", "--wait", is_flag=True, help="Wait for the job to end, and exit with its exit code.")
@click.option("--parsable", is_flag=True, help="Print only the name of the job.")
@click.option("--wrap", default="", metavar="COMMAND", help="Shell command to run instead of a script.")
@click.option("-i", "--image", default="busybox", show_default=True, help="Container image.")
@click.option("--namespace", default="", metavar="NAME", help="Namespace. [default: that of the kubeconfig]")
@click.option("-k", "--kubeconfig", default="", metavar="FILE", help="Access to the cluster.")
@_ignored
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[FILE] [ARGUMENT]...")
@click.pass_context
def batch(context: click.Context, /, words: tuple[str, ...], **given: Any) -> None:
    """Submit the script FILE, or standard input, as a job, and print its name.

    Options come from lines of the script that begin with #SBATCH or #KILAUEA, before its first command; options on the
    command line override them. A note names each option of sbatch that has no effect, with the reason. With --ntasks or
    --nodes above 1, each copy runs the whole script, with its number in SLURM_PROCID: there is no srun inside.
    """
    import asyncio

    from kilauea.api.ports import ApiError
    from kilauea.cli.api_errors import refused_job
    from kilauea.cli.vcctl.cluster import Cluster
    from kilauea.cli.vcctl.command import CommandError
    from kilauea.client.access import AccessError

    cluster = Cluster(given["kubeconfig"], agent="kilauea-batch")
    try:
        script = script_of(words, given["wrap"])
        options = _combined(context, script)
        arguments = words if given["wrap"] else words[1:]
        code = asyncio.run(_submit(cluster, script, arguments, options))
    except (CommandError, AccessError) as error:
        raise Usage(str(error)) from error
    except ApiError as error:
        raise Failure(refused_job(error)) from error
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


def script_of(words: tuple[str, ...], wrapped: str) -> Script:
    """The script on the command line.

    Raises:
        CommandError: it cannot be read.
    """
    from kilauea.cli.jobs.script import read_script
    from kilauea.cli.vcctl.command import CommandError

    if wrapped:
        return read_script("wrap", f"#!/bin/sh\n{wrapped}\n".encode())
    path = words[0] if words else "-"
    try:
        if path == "-":
            return read_script("script", sys.stdin.buffer.read())
        with open(path, "rb") as file:
            return read_script(os.path.basename(path), file.read())
    except OSError as error:
        raise CommandError(f"{path}: {(error.strerror or str(error)).lower()}") from error


def _note(text: str) -> None:
    from kilauea.api.printing import printable

    click.echo(printable(f"note: {text}"), err=True)


def _combined(context: click.Context, script: Script) -> dict[str, Any]:
    """Options of the command line, which override those in the script."""
    found = dict(context.params)
    by_line: dict[str, Any] = {}
    for directive in script.directives:
        by_line |= _line_options(f"{script.name}:{directive.line}", list(directive.words))
    for name, value in by_line.items():
        if context.get_parameter_source(name) is ParameterSource.DEFAULT:
            found[name] = value
    _say_ignored(found)
    for line, command in script.launches:
        message = f"{command} does not exist in pods: each copy runs the whole script, so leave {command} out"
        _note(f"{script.name}:{line}: {message}")
    return found


def _line_options(place: str, words: list[str]) -> dict[str, Any]:
    """The options of one line; an unknown one is reported, and has no effect.

    Raises:
        CommandError: a value is invalid.
    """
    from kilauea.cli.vcctl.command import CommandError

    try:
        context = batch.make_context("batch", [*words, "--", "-"])
    except click.NoSuchOption as error:
        _note(f"{place}: {error.option_name} is not known and has no effect")
        return _line_options(place, _without(words, error.option_name))
    except click.UsageError as error:
        raise CommandError(f"{place}: {error.format_message()}") from error
    if context.params["words"] != ("-",):
        raise CommandError(f"{place}: {context.params['words'][0]} is not an option")
    given = context.params.items()
    return {
        name: value
        for name, value in given
        if name != "words" and context.get_parameter_source(name) is not ParameterSource.DEFAULT
    }


def _without(words: list[str], option: str) -> list[str]:
    """The words of a line without an unknown option and its value."""
    at = next((i for i, word in enumerate(words) if word.partition("=")[0] == option or word[:2] == option), None)
    if at is None:
        return []
    has_value = "=" not in words[at] and words[at + 1 : at + 2] and not words[at + 1].startswith("-")
    return words[:at] + words[at + (2 if has_value else 1) :]


def _say_ignored(options: Mapping[str, Any]) -> None:
    for names, why in {**IGNORED, **IGNORED_FLAGS}.items():
        option = names.rpartition(",")[2]
        if options.get(option.removeprefix("--").replace("-", "_")):
            _note(f"{option} has no effect: {why}")


async def _submit(cluster: Cluster, script: Script, arguments: tuple[str, ...], given: Mapping[str, Any]) -> int:
    """Create the job; return 0, or its exit code with --wait."""
    from kilauea.api.kinds import VC_JOBS
    from kilauea.api.ports import key_of
    from kilauea.cli.jobs.batch_request import output_place
    from kilauea.cli.jobs.dependencies import parse_dependencies, wait_for
    from kilauea.cli.jobs.manifest import submitted
    from kilauea.cli.jobs.place import is_this_machine
    from kilauea.cli.run import followed
    from kilauea.cli.vcctl.watching import left_running

    access = cluster.access()
    namespace = given["namespace"] or access.namespace or "default"
    dependencies = parse_dependencies(given["dependency"])
    async with cluster.connect() as api:
        here = await is_this_machine(api, access.server)
        job = batch_job(script, arguments, given, namespace, here=here)
        if dependencies:
            await wait_for(api, namespace, dependencies)
        made = await api.create(VC_JOBS, namespace, job)
        key = key_of(made)
        click.echo(key.name if given["parsable"] else f"Submitted batch job {key.name}")
        click.echo(f"{key.name}: {submitted(made)}", err=True)
        click.echo(f"{key.name}: {output_place(made, given['output'], given['error'], here=here)}", err=True)
        if not given["wait"]:
            return 0
        with left_running(key):
            return await followed(api, key, largest=bool(given["array"]))


def batch_job(
    script: Script, arguments: tuple[str, ...], given: Mapping[str, Any], namespace: str, *, here: bool
) -> dict[str, Any]:
    """The job of a script.

    Args:
        script: the script.
        arguments: arguments of the script.
        given: options by name.
        namespace: namespace of the job.
        here: True if pods are processes on this machine.

    Raises:
        CommandError: an option is invalid.
    """
    from kilauea.cli.jobs.batch_request import JOB_NAME, redirection, request_of, slurm_variables
    from kilauea.cli.jobs.commands import after
    from kilauea.cli.jobs.manifest import job_for
    from kilauea.cli.jobs.place import put_in_place

    request = request_of(script, arguments, given, namespace, _note)
    copies = len(request.elements) or request.tasks or request.nodes or 1
    files = redirection(given["output"], given["error"], given["open_mode"], copies)
    # The script determines its element before it opens files, whose names may contain it.
    job = job_for(replace(request, command=tuple(after(files, request.command))) if here else request)
    name = given["job_name"] or script.name
    job["metadata"]["annotations"][JOB_NAME] = name
    container = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    container["env"] = [*container.get("env", ()), *slurm_variables(request, name, os.getcwd())]
    if files and not here:
        _note("--output and --error have no effect: pods do not run on this machine")
    outputs = [name for name in (given["output"], given["error"]) if name]
    put_in_place(job, given["chdir"], given["export"], here=here, files=outputs)
    return job
