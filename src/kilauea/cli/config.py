"""`kilauea config check`: the problems in a scheduler configuration, with their lines and consequences."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from kilauea.api.numbers import plural
from kilauea.api.printing import printable
from kilauea.cli.color import echo
from kilauea.cli.data_text import json_text
from kilauea.cli.inputs import Usage, plugins_option
from kilauea.cli.table import table

if TYPE_CHECKING:
    from kilauea.engine.explain.conf_check import Issue
    from kilauea.runtime.inputs.conf_file import ConfFile
    from kilauea.simulator.extensions import Extensions

EXAMPLES = """\b
Examples:
  kilauea config check scheduler.conf
  kilauea config check scheduler.conf --plugins-dir plugins -o json
  kubectl get configmap -n volcano-system volcano-scheduler-configmap \\
    -o jsonpath='{.data.volcano-scheduler\\.conf}' | kilauea config check -
"""


@click.group(short_help="Work with scheduler configurations.")
def config() -> None:
    """Work with scheduler configurations."""


@config.command(short_help="Check a scheduler configuration.", epilog=EXAMPLES)
@click.argument("file")
@plugins_option
@click.option(
    "-o",
    "--output",
    type=click.Choice(("table", "json")),
    default="table",
    show_default=True,
    help="Output format.",
)
@click.pass_context
def check(context: click.Context, file: str, folders: tuple[str, ...], output: str) -> None:
    """Check the scheduler configuration in FILE (- is standard input): show each problem, its line, and why it matters.

    With an error, the configuration cannot be used. With a warning, it does not do what it seems to do. A note is for
    information. The exit code is 0 if there are no errors, and 2 otherwise.
    """
    from kilauea.engine.explain.conf_check import ERROR
    from kilauea.runtime.inputs.conf_file import read_conf_file
    from kilauea.runtime.inputs.extensions import ExtensionError, load_extensions
    from kilauea.runtime.inputs.files import SourceError

    try:
        extensions = load_extensions(folders)
        conf_file = read_conf_file(file)
    except (ExtensionError, SourceError) as error:
        raise Usage(str(error)) from error
    for warning in extensions.warnings:
        echo(f"warning: {printable(warning)}\n", err=True)
    findings = _findings(conf_file, extensions)
    ok = all(finding["severity"] != ERROR for finding in findings)
    if output == "json":
        data = {"file": conf_file.name, "ok": ok, "findings": findings}
        sys.stdout.write(json_text(data) + "\n")
    else:
        sys.stdout.write("\n".join(_table(conf_file.name, findings)) + "\n")
    if not ok:
        context.exit(2)


def _findings(conf_file: ConfFile, extensions: Extensions) -> list[dict[str, Any]]:
    """Findings as plain data, in the order of the file."""
    from kilauea.engine.explain.conf_check import ERROR, SEVERITIES, WHY, Issue, check_conf
    from kilauea.runtime.watchdog import watchdog

    fault = conf_file.fault
    if fault is not None:
        issue = Issue(ERROR, "yaml", (), "", fault.message, "", WHY["yaml"])
        return [_as_data(issue, fault.line, fault.column)]
    with watchdog() as dog:
        issues = check_conf(conf_file.document, extensions.plugins, extensions.actions, dog)
    found = [_as_data(issue, *conf_file.place(issue.path)) for issue in issues]
    return sorted(
        found, key=lambda finding: (finding["line"], finding["column"], SEVERITIES.index(finding["severity"]))
    )


def _as_data(issue: Issue, line: int, column: int) -> dict[str, Any]:
    return {
        "line": line,
        "column": column,
        "severity": issue.severity,
        "code": issue.code,
        "where": issue.where,
        "message": issue.message,
        "hint": issue.hint,
        "why": issue.why,
    }


def _table(name: str, findings: list[dict[str, Any]]) -> list[str]:
    from kilauea.engine.explain.conf_check import SEVERITIES

    name = printable(name)

    if not findings:
        return [f"{name}: valid, no problems found."]
    counts = {s: sum(1 for finding in findings if finding["severity"] == s) for s in SEVERITIES}
    counted = ", ".join(plural(count, s) for s, count in counts.items() if count)
    verdict = "cannot be used" if counts[SEVERITIES[0]] else "can be used"
    rows = []
    for finding in findings:
        place = f"{finding['line']}:{finding['column']}" if finding["line"] else "-"
        rows.append([place, finding["severity"], finding["where"] or "-", finding["message"]])
        rows.append(["", "", "", f"  {finding['why']}"])
    return [f"{name}: {verdict}; {counted}.", "", *table(["LINE", "SEVERITY", "WHERE", "FINDING"], rows)]
