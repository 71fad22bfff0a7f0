"""`kilauea advise`: changes of queues and configuration that improve the results on a trace, and queues that lose."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from kilauea.api.printing import printable
from kilauea.cli.color import echo
from kilauea.cli.data_text import json_text
from kilauea.cli.inputs import Usage
from kilauea.cli.simulation.options import Options, read_inputs, simulation_options
from kilauea.cli.simulation.progress import progress
from kilauea.cli.table import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kilauea.cli.simulation.comparison import Line
    from kilauea.cli.simulation.figures import Figure, Json
    from kilauea.runtime.trials.advising import Proposal

EXAMPLES = """\b
Examples:
  kilauea advise -f cluster.yaml --trace jobs.csv --conf scheduler.yaml --seeds 10
  kilauea advise -f cluster.yaml --trace history.jsonl --seeds 10 --for-queue research
"""
NOTICEABLE = 0.05
"""The fraction by which the waiting time of a queue must increase to report it, if there is only one trace."""


@click.command(short_help="Find changes that shorten waiting, by trying them.", epilog=EXAMPLES)
@simulation_options
@click.option("--for-queue", "queue", metavar="QUEUE", help="Shorten the waiting of this queue. [default: of all jobs]")
@click.option(
    "-o", "--output", type=click.Choice(("table", "json")), default="table", show_default=True, help="Output format."
)
def advise(
    options: Options,
    queue: str | None,
    output: str,
) -> None:
    """Try changes on a trace, and show those that shorten the mean waiting time, with the queues that lose by them.

    The command tries larger weights for the queues that wait longest, or larger deserved amounts where the plugin
    capacity counts these, the action backfill, and the plugin binpack. It changes nothing. With --seeds 10 or more, it
    shows which differences exceed random variation. A change that is better for a trace of the past may not be better
    in the future.
    """
    from kilauea.cli.simulation.comparison import compared
    from kilauea.runtime.inputs.files import SourceError
    from kilauea.runtime.trials.advising import proposals
    from kilauea.runtime.trials.running import run_trials

    if len(options.confs) > 1 or options.variants:
        raise Usage("advise starts from one configuration: use --conf once, and no --variant")
    given = read_inputs(options)
    for finding in given.findings:
        echo(f"warning: {printable(finding)}\n", err=True)
    shown = progress(sys.stderr.isatty())
    try:
        first = run_trials(given.candidates, given.trace, given.conditions, shown)
        base: Any = first["configurations"][0]
        names = sorted(base["runs"][0]["queues"])
        if queue is not None and queue not in names:
            raise Usage(f"--for-queue: the trace has no jobs in {queue}: it has {', '.join(names)}")
        tried = proposals(given.candidates[0], base["runs"][0])
        report = run_trials([each.candidate for each in tried], given.trace, given.conditions, shown)
    except SourceError as error:
        raise Usage(str(error)) from error
    pairs = zip(tried, report["configurations"], strict=True)
    found = [(proposal, compared(base, other)) for proposal, other in pairs]
    found.sort(key=lambda each: (_gain(each[1], queue), each[0].candidate.name))
    if output == "json":
        data = {
            "version": 1,
            "for_queue": queue,
            "seeds": options.seeds,
            "proposals": [_data(*each, queue) for each in found],
        }
        sys.stdout.write(json_text(data, indent=1) + "\n")
        return
    sys.stdout.write("\n".join(_lines(found, queue, base, options.seeds)) + "\n")


def _aim(lines: Sequence[Line], queue: str | None) -> Line | None:
    """The figure to reduce."""
    return next((line for line in lines if line.queue == (queue or "") and line.figure.name == "wait mean"), None)


def _gain(lines: Sequence[Line], queue: str | None) -> float:
    aim = _aim(lines, queue)
    return aim.found.mean if aim is not None else 0.0


def _losers(lines: Sequence[Line]) -> list[str]:
    """Queues that wait longer, with the increase."""
    from kilauea.cli.simulation.comparison import relative

    out = []
    for line in lines:
        found = line.found
        noticeable = found.verdict == "unclear" and found.mean > NOTICEABLE * max(found.first, 1.0)
        if line.queue and line.figure.name == "wait mean" and (found.verdict == "worse" or noticeable):
            out.append(f"{line.queue}{relative(found)}{'?' if noticeable else ''}")
    return out


def _lines(found: Sequence[tuple[Proposal, Sequence[Line]]], queue: str | None, base: Json, seeds: int) -> list[str]:
    from kilauea.cli.simulation.comparison import relative
    from kilauea.cli.simulation.figures import duration, written

    rows, fixes = [], []
    for proposal, lines in found:
        aim = _aim(lines, queue)
        if aim is None:
            continue
        figure: Figure = aim.figure
        difference = aim.found
        interval = "-"
        if difference.low is not None and difference.high is not None:
            interval = f"{written(figure, difference.low)} to {written(figure, difference.high)}"
        mean = f"{written(figure, difference.mean)}{relative(difference)}"
        losers = ", ".join(_losers(lines)) or "none"
        rows.append([proposal.candidate.name, mean, interval, difference.verdict, losers])
        helps = difference.verdict == "better" or (seeds == 1 and difference.mean < 0)
        if helps:
            fixes.append(f"  {proposal.candidate.name}: {proposal.fix}")
    of = f"of {queue}" if queue else "of all jobs"
    runs = base["runs"]
    aims = [run["queues"][queue]["wait"]["mean"] if queue else run["wait"]["mean"] for run in runs]
    known = [value for value in aims if value is not None]
    now = duration(sum(known) / len(known)) if known else "-"
    heading = ["CHANGE", "WAIT MEAN", "95% INTERVAL", "VERDICT", "LOSERS"]
    out = [printable(f"Mean waiting time {of}: {now} as it is. Tried:"), "", *table(heading, rows), ""]
    if fixes:
        out += ["To make the changes that help:", *map(printable, fixes)]
    else:
        out.append("None of these changes shortens the waiting by more than random variation.")
    if seeds == 1:
        out.append("One trace does not show random variation: use --seeds 10 or more.")
    elif any("?" in row[4] for row in rows):
        out.append("A queue with ? waits longer in the mean, but not by more than random variation.")
    return out


def _data(proposal: Proposal, lines: Sequence[Line], queue: str | None) -> dict[str, Any]:
    aim = _aim(lines, queue)
    return {
        "change": proposal.candidate.name,
        "fix": proposal.fix,
        "wait_mean": asdict(aim.found) if aim is not None else None,
        "losers": _losers(lines),
    }
