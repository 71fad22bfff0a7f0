"""`kilauea history`: events of jobs, including deleted ones."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kilauea.api.numbers import plural
from kilauea.cli.histories.moments import Moment
from kilauea.cli.histories.source import Source, source_options

if TYPE_CHECKING:
    from kilauea.history.answers import JobAnswer

EXAMPLES = """\b
Examples:
  kilauea history job train-7
  kilauea history jobs --since 7d --queue research
  kilauea history export > history.jsonl
"""
output_option = click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="Output format."
)


@click.group(short_help="Show what happened to jobs.", epilog=EXAMPLES)
def history() -> None:
    """Show what happened to jobs and why, including deleted ones.

    `kilauea up` keeps the history of its cluster. For any other cluster, `kilauea scheduler --history DIR` keeps one,
    which these commands read with --data DIR.
    """


@history.command(short_help="Show what happened to a job.")
@click.argument("name")
@click.option("--uid", default="", metavar="UID", help="The job with this uid, if there were several of this name.")
@source_options
@output_option
def job(
    name: str, uid: str, namespace: str, all_namespaces: bool, data: Path | None, kubeconfig: str, output: str
) -> None:
    """Show what happened to the job NAME: when it was submitted, why it waited, where it ran, what evicted it.

    If there were several of this name, the newest is shown.
    """
    from kilauea.api.printing import printable
    from kilauea.cli.histories.output import job_lines
    from kilauea.cli.inputs import Failure
    from kilauea.cli.vcctl.cluster import now

    source = Source(kubeconfig, data, namespace, all_namespaces)
    found = source.job(name, {"uid": uid} if uid else {})
    if found is None:
        what = f"job {name}" + (f" with uid {uid}" if uid else "")
        raise Failure(f"{what} is not in the history of {_place(source.namespace)}")
    if output == "json":
        _print_json(found)
        return
    click.echo("".join(f"{printable(line)}\n" for line in job_lines(found, found.seen or now())), nl=False)


@history.command(short_help="List jobs, including deleted ones.")
@click.option("--since", type=Moment(), metavar="TIME", help="Only jobs that had not ended by then, such as 7d.")
@click.option("--until", type=Moment(), metavar="TIME", help="Only jobs that were submitted before.")
@click.option("--queue", default="", metavar="QUEUE", help="Only jobs of this queue.")
@click.option("--user", default="", metavar="USER", help="Only jobs of this user.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Show only this many, the newest."
)
@source_options
@output_option
def jobs(
    since: int | None,
    until: int | None,
    queue: str,
    user: str,
    limit: int,
    namespace: str,
    all_namespaces: bool,
    data: Path | None,
    kubeconfig: str,
    output: str,
) -> None:
    """List jobs with how long they waited and ran, and how often their pods were evicted."""
    from kilauea.cli.histories.notes import note_limits
    from kilauea.cli.histories.output import jobs_lines
    from kilauea.cli.vcctl.cluster import now

    query = {"queue": queue, "user": user, "limit": str(limit), **times(since, until)}
    source = Source(kubeconfig, data, namespace, all_namespaces)
    found = source.jobs({name: value for name, value in query.items() if value})
    if output == "json":
        _print_json(found)
        return
    click.echo(
        "".join(f"{line}\n" for line in jobs_lines(found.items, found.seen or now(), named=not source.namespace)),
        nl=False,
    )
    if not found.items:
        click.echo(f"no jobs in the history of {_place(source.namespace)}", err=True)
    if found.more:
        click.echo(f"note: there are older ones; --limit {limit * 10} shows more", err=True)
    note_limits(found.since, found.gaps, since)


@history.command(short_help="Export the history as JSON lines.")
@source_options
def export(namespace: str, all_namespaces: bool, data: Path | None, kubeconfig: str) -> None:
    """Write the history to standard output as lines of JSON: a header, jobs, pods, events."""
    for piece in Source(kubeconfig, data, namespace, all_namespaces).lines():
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


@history.command(name="import", short_help="Add an exported history to another.")
@click.argument("path", type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    metavar="DIR",
    help="Folder of the history to add to; created if it does not exist.",
)
def import_(path: Path, data: Path) -> None:
    """Add the exported history in PATH (- is standard input) to the one in a folder.

    Records that are in both are kept once. Nothing else may write to the folder in the meantime: stop its cluster
    first.
    """
    from kilauea.api.printing import printable
    from kilauea.cli.inputs import Failure
    from kilauea.history.errors import HistoryError
    from kilauea.history.store import History, read_lines

    try:
        if str(path) == "-":
            found = read_lines(sys.stdin.buffer, "standard input")
        else:
            with path.open("rb") as file:
                found = read_lines(file, str(path))
        history = History.open(data)
        try:
            history.put(found.records)
            if found.header is not None:
                history.extend(found.header)
        finally:
            history.close()
    except HistoryError as error:
        raise Failure(str(error)) from error
    for problem in found.problems:
        click.echo(f"warning: {printable(problem)}", err=True)
    if found.bad > len(found.problems):
        click.echo(f"warning: and {plural(found.bad - len(found.problems), 'more line')}", err=True)
    if found.header is None:
        click.echo("warning: the first line of an export is missing, so its beginning may be, too", err=True)
    if history.damage:
        click.echo(f"warning: {printable(history.damage)}", err=True)
    click.echo(f"{plural(len(found.records), 'record')} added to {data}")


def times(since: int | None, until: int | None) -> dict[str, str]:
    """Query parameters of a time span."""
    from kilauea.api.times import format_time

    given = {"since": since, "until": until}
    return {name: format_time(at) for name, at in given.items() if at is not None}


def _place(namespace: str) -> str:
    return f"namespace {namespace}" if namespace else "the cluster"


def _print_json(found: JobAnswer | Any) -> None:
    import msgspec

    from kilauea.cli.data_text import escaped_json

    click.echo(escaped_json(msgspec.json.format(msgspec.json.encode(found), indent=2).decode()))
