"""Entry points of `vc-scheduler`, `vc-controller-manager` and `vc-webhook-manager`, which run commands of `kilauea`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

import click

PROGRAMS: Mapping[str, str] = {
    "vc-scheduler": "scheduler",
    "vc-controller-manager": "controllers",
    "vc-webhook-manager": "webhooks",
}
"""Programs of Volcano, with the corresponding subcommands of `kilauea`."""


def program(name: str) -> click.Command:
    """Return the command of a program."""
    found: click.Command = getattr(import_module(f"kilauea.cli.{PROGRAMS[name]}"), PROGRAMS[name])
    return found


def vc_scheduler() -> None:
    """Schedule the pods of a cluster."""
    program("vc-scheduler").main(prog_name="vc-scheduler")


def vc_controller_manager() -> None:
    """Run controllers for a cluster."""
    program("vc-controller-manager").main(prog_name="vc-controller-manager")


def vc_webhook_manager() -> None:
    """Validate and default objects for a cluster."""
    program("vc-webhook-manager").main(prog_name="vc-webhook-manager")
