"""The plugins that a job may name, and what one of them needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

PLUGINS = ("env", "hcclrank", "mpi", "pytorch", "ray", "ssh", "svc", "tensorflow")
"""Sorted."""
_MPI_MASTER = "master"


def mpi_master(arguments: Sequence[str]) -> str:
    """The name of the task that starts the others, for the plugin `mpi`."""
    return next((value for name, value in _flags(arguments) if name == "master"), _MPI_MASTER)


def _flags(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Names and values in Go's syntax (`--x=v`, `-x=v`, `--x v`), the last one first; it ends at what is no flag."""
    found: list[tuple[str, str]] = []
    rest = iter(arguments)
    for argument in rest:
        dashes = len(argument) - len(argument.lstrip("-"))
        name, equals, value = argument[dashes:].partition("=")
        if dashes not in (1, 2) or not name:
            break
        found.append((name, value if equals else next(rest, "")))
    return reversed(found)
