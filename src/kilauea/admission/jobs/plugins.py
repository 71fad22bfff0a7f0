"""The plugins that a job names: their requirements, and arguments that do not do what their author expects."""

from __future__ import annotations

from collections.abc import Sequence

from kilauea.api.batch import JobSpec
from kilauea.api.job_plugins import ARGUMENTS, MpiArguments, argument_value, unknown_arguments, wrong_arguments

PLUGINS = tuple(sorted(ARGUMENTS))
"""All there are."""


def mpi_master(arguments: Sequence[str]) -> str:
    """The name of the task that starts the others, for the plugin `mpi`."""
    named = argument_value(MpiArguments, arguments, "master")
    return MpiArguments().master if named is None else named


def plugin_warnings(spec: JobSpec) -> list[str]:
    """Arguments that are ignored, as the original ignores them, and those for which the job will wait."""
    plugins = spec.plugins or {}
    way_out = "the job waits in Pending with it: delete it and create it again"
    return [*unknown_arguments(plugins), *(f"{each}; {way_out}" for each in wrong_arguments(plugins))]
