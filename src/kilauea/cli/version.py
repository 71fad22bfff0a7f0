"""The version, in the format of Volcano's programs."""

from __future__ import annotations

import click

UNKNOWN = "Not provided."


def print_version() -> None:
    """Print the version of the API, of the program and of Python."""
    import platform

    from kilauea.version import __version__

    click.echo("API Version: v1alpha1")
    click.echo(f"Version: {__version__}")
    click.echo(f"Git SHA: {UNKNOWN}")
    click.echo(f"Built At: {UNKNOWN}")
    click.echo(f"Python Version: {platform.python_version()}")
    click.echo(f"OS/Arch: {platform.system().lower()}/{platform.machine()}")
