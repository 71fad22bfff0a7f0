"""`kilauea compare`: which of two simulated configurations is better, in what respect, and with what confidence."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kilauea.cli.data_text import json_text
from kilauea.cli.inputs import Usage

if TYPE_CHECKING:
    from kilauea.cli.simulation.figures import Json

EXAMPLES = """\b
Examples:
  kilauea compare report.json
  kilauea compare today.json tomorrow.json
  kilauea compare report.json:today report.json:tomorrow -o json
"""


@click.command(short_help="Compare simulated configurations.", epilog=EXAMPLES)
@click.argument("reports", nargs=-1, required=True, metavar="REPORT[:NAME]...")
@click.option(
    "-o", "--output", type=click.Choice(("table", "json")), default="table", show_default=True, help="Output format."
)
def compare(reports: tuple[str, ...], output: str) -> None:
    """Compare configurations that `kilauea simulate -o json` has reported.

    REPORT is a file with a report, NAME the name of a configuration in it. The first configuration is compared with
    each of the others. They must have run on the same traces. The intervals are those of Student's t over the
    differences on each trace, at 95%.
    """
    from kilauea.cli.simulation.comparison import comparison_data, comparison_lines

    found = [each for text in reports for each in _configurations(text)]
    if len(found) < 2:
        raise Usage(f"{reports[0]}: has one configuration: give another report, or one with several")
    (source, trace, first), *others = found
    for name, other_trace, other in others:
        if other_trace != trace:
            raise Usage(f"{name}: ran on other traces or under other conditions than {source}: they cannot be compared")
        if len(other["runs"]) != len(first["runs"]):
            raise Usage(
                f"{name}: has {len(other['runs'])} seeds, {source} has {len(first['runs'])}: give them the same"
            )
    if output == "json":
        data = [comparison_data(first, other) for _, _, other in others]
        sys.stdout.write(json_text({"version": 1, "comparisons": data}, indent=1) + "\n")
        return
    lines = []
    for _, _, other in others:
        lines += [*comparison_lines(first, other), ""]
    sys.stdout.write("\n".join(lines[:-1]) + "\n")


def _configurations(text: str) -> list[tuple[str, Any, Json]]:
    """The configurations of an argument: the argument, their traces, and each of them.

    Raises:
        Usage: a report or configuration does not exist.
    """
    path, _, name = text.partition(":") if not Path(text).exists() else (text, "", "")
    report = _report(path)
    conditions = (report["trace"]["digest"], report["settings"])
    found = [each for each in report["configurations"] if not name or each["name"] == name]
    if not found:
        names = ", ".join(each["name"] for each in report["configurations"])
        raise Usage(f"{path}: no configuration {name}: it has {names}")
    return [(text, conditions, each) for each in found]


def _report(path: str) -> Any:
    try:
        data = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise Usage(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise Usage(f"{path}: not JSON: {error}: write a report with `kilauea simulate -o json`") from error
    if not isinstance(data, dict) or data.get("version") != 1 or not _is_report(data):
        raise Usage(f"{path}: not a report of version 1: write one with `kilauea simulate -o json`")
    return data


def _is_report(data: dict[str, Any]) -> bool:
    try:
        return bool(data["settings"] and data["trace"]["digest"] and data["configurations"][0]["runs"][0]["queues"])
    except (KeyError, IndexError, TypeError):
        return False
