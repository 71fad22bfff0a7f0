"""`kilauea simulate`: a trace of jobs through the scheduler, under one configuration or several."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kilauea.api.numbers import plural
from kilauea.api.printing import printable
from kilauea.cli.color import echo
from kilauea.cli.data_text import json_text
from kilauea.cli.inputs import Usage
from kilauea.cli.simulation.options import Options, read_inputs, simulation_options
from kilauea.cli.simulation.progress import progress

if TYPE_CHECKING:
    from kilauea.simulator.replay.report import Json

EXAMPLES = """\b
Examples:
  kilauea simulate -f cluster.yaml --trace jobs.csv
  kilauea simulate -f cluster.yaml --trace jobs.csv --conf today.yaml --conf tomorrow.yaml --page report.html
  kilauea simulate -f cluster.yaml --trace jobs.csv --variant more-research=research.yaml --load 1.5 --seeds 5
  kilauea simulate --nodes nodes.csv --trace log.swf.gz --from 168h --for 24h -o json > report.json
"""


@click.command(short_help="Run a trace of jobs through the scheduler.", epilog=EXAMPLES)
@simulation_options
@click.option(
    "--page", type=click.Path(path_type=Path, dir_okay=False), help="Write a page of plots (HTML) to this file."
)
@click.option(
    "-o", "--output", type=click.Choice(("table", "json")), default="table", show_default=True, help="Output format."
)
def simulate(
    options: Options,
    page: Path | None,
    output: str,
) -> None:
    """Run the jobs of a trace through the scheduler and the controllers, in virtual time.

    Each job of the trace becomes a Volcano job, submitted at its time to the cluster of -f or --nodes. Its pods run for
    the time in the trace. The work of an evicted pod is lost, and its job continues according to its policies.
    Simulating a day or a month takes seconds to minutes.

    The trace is a CSV table with the columns submit and duration, a log in the Standard Workload Format, one of the
    published traces openb, Philly, Muri and DLRM, or what `kilauea history export` has written. It may be gzipped.

    With several --conf or --variant, the command tries each of them with the same jobs. With --seeds, it also draws
    other traces from the given one, so that `kilauea compare` can show which differences exceed random variation.
    """
    from kilauea.runtime.inputs.files import SourceError
    from kilauea.runtime.trials.running import run_trials

    if page is not None and not page.absolute().parent.is_dir():
        raise Usage(f"--page: {page}: there is no folder {page.parent}")
    given = read_inputs(options)
    for finding in given.findings:
        echo(f"warning: {printable(finding)}\n", err=True)
    shown = progress(sys.stderr.isatty())
    started = time.perf_counter()
    try:
        report = run_trials(given.candidates, given.trace, given.conditions, shown)
    except SourceError as error:
        raise Usage(str(error)) from error
    seconds = time.perf_counter() - started
    count, jobs = len(given.candidates) * options.seeds, len(given.trace.jobs)
    echo(
        f"{plural(count, 'simulation')} of {plural(jobs, 'job')} in {seconds:.1f} s\n",
        err=True,
    )
    if page is not None:
        _write_page(report, page)
    if output == "json":
        sys.stdout.write(json_text(report, indent=1) + "\n")
        return
    from kilauea.cli.simulation.tables import report_lines

    sys.stdout.write("\n".join(report_lines(report)) + "\n")


def _write_page(report: Json, path: Path) -> None:
    from kilauea.cli.simulation.page import page_of

    try:
        path.write_text(page_of(report), encoding="utf-8")
    except OSError as error:
        raise Usage(f"--page: {path}: {error.strerror}") from error
    echo(f"wrote {printable(str(path))}\n", err=True)
