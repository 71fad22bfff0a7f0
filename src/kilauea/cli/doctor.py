"""`kilauea doctor`: check a cluster and suggest fixes."""

from __future__ import annotations

import dataclasses
import os
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kilauea.api.printing import printable
from kilauea.cli.data_text import json_text
from kilauea.cli.inputs import Usage, plugins_option
from kilauea.cli.options import access
from kilauea.cli.table import table

if TYPE_CHECKING:
    from kilauea.runtime.doctor.findings import Check, Finding

EXAMPLES = """\b
Examples:
  kilauea doctor
  kilauea doctor --kubeconfig ~/.kube/config -o json
"""
WIDTH = 100
"""Width of the advice in characters."""


@click.command(short_help="Check a cluster and say what to do.", epilog=EXAMPLES)
@access
@plugins_option
@click.option(
    "-o", "--output", type=click.Choice(("table", "json")), default="table", show_default=True, help="Output format."
)
@click.pass_context
def doctor(context: click.Context, kubeconfig: Path | None, folders: tuple[str, ...], output: str) -> None:
    """Check that a cluster has everything that Kilauea needs, and that what is installed works.

    The checks: the server and its version, the definitions, your rights, the components with their service accounts and
    leaders, two installations, the webhooks, the scheduler's configuration, and names that do not exist. The command is
    read-only. It needs no particular permissions: it skips what you may not read.

    The exit code is 1 if there is an error, and 0 otherwise.
    """
    checks, server = _examined(kubeconfig, folders)
    failed = any(check.status == "error" for check in checks)
    if output == "json":
        sys.stdout.write(json_text(_as_data(server, checks)) + "\n")
    else:
        sys.stdout.write("\n".join(_lines(checks)) + "\n")
    context.exit(1 if failed else 0)


def _examined(kubeconfig: Path | None, folders: Sequence[str]) -> tuple[list[Check], str]:
    """The checks of the selected cluster, and its URL.

    Raises:
        Usage: no cluster is selected, or a plugin cannot be loaded.
    """
    import asyncio
    import time

    from kilauea.client.access import AccessError
    from kilauea.client.finding import find_access
    from kilauea.client.http import HttpTransport
    from kilauea.runtime.doctor.examination import examine
    from kilauea.runtime.inputs.extensions import ExtensionError, load_extensions

    try:
        found = find_access(kubeconfig, os.environ)
        extensions = load_extensions(folders)
    except (AccessError, ExtensionError) as error:
        raise Usage(str(error)) from error

    async def run() -> list[Check]:
        async with HttpTransport(found) as transport:
            return await examine(transport, found.server, time.time_ns() // 1000, extensions)

    return asyncio.run(run()), found.server


def _as_data(server: str, checks: Sequence[Check]) -> dict[str, Any]:
    """The checks as plain data."""
    listed = [
        {
            "name": check.name,
            "status": check.status,
            "summary": check.summary,
            "findings": [dataclasses.asdict(finding) for finding in check.findings],
        }
        for check in checks
    ]
    return {"server": server, "ok": all(check.status != "error" for check in checks), "checks": listed}


def _lines(checks: Sequence[Check]) -> list[str]:
    """One line for each check, and the fixes."""
    lines = table(("CHECK", "STATUS", "SUMMARY"), [(check.name, check.status, check.summary) for check in checks])
    findings = list(dict.fromkeys(finding for check in checks for finding in check.findings))
    if findings:
        lines += ["", "What to do:"]
        for finding in sorted(findings, key=lambda each: ("error", "warning", "skipped").index(each.severity)):
            lines += ["", *_advice(finding)]
    return lines


def _advice(finding: Finding) -> list[str]:
    field = f", {finding.field}" if finding.field else ""
    value = f": {finding.value}" if finding.value else ""
    head = printable(f"{finding.severity}: {finding.object}{field}{value}")
    return [head, *_wrapped(finding.message), *_wrapped(f"Fix: {finding.fix}")]


def _wrapped(text: str) -> list[str]:
    """The text as indented lines; commands are not wrapped."""
    return textwrap.wrap(
        printable(text),
        WIDTH,
        initial_indent="  ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
