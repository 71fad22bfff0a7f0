"""Dependencies on existing jobs, as in `sbatch --dependency`: the command waits, then submits."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, NamedTuple

import click

from kilauea.api.kinds import VC_JOBS
from kilauea.api.ports import ApiError, Key
from kilauea.cli.inputs import Failure
from kilauea.cli.vcctl.command import CommandError
from kilauea.cli.vcctl.job_list import phase_of
from kilauea.cli.vcctl.watching import states_of

if TYPE_CHECKING:
    from kilauea.api.ports import Api

OVER = frozenset({"Completed", "Failed", "Terminated"})
KINDS = ("after", "afterok", "afternotok", "afterany")


class Dependency(NamedTuple):
    """A job that must have started or ended first."""

    kind: str
    job: str


def parse_dependencies(text: str) -> Sequence[Dependency]:
    """Parse dependencies such as `afterok:JOB:JOB,afterany:JOB`.

    Raises:
        CommandError: the text is not a list of dependencies.
    """
    found = []
    for entry in filter(None, text.split(",")):
        kind, _, jobs = entry.partition(":")
        names = [job for job in jobs.split(":") if job]
        if kind not in KINDS or not names:
            raise CommandError(f'--dependency: invalid dependency "{entry}": use {", ".join(KINDS)} and :JOB')
        found += [Dependency(kind, name) for name in names]
    return found


async def wait_for(api: Api, namespace: str, dependencies: Sequence[Dependency]) -> None:
    """Wait until dependencies are satisfied; reports this, because the cluster does not wait for them.

    Raises:
        Failure: a dependency can never be satisfied.
    """
    for dependency in dependencies:
        key = Key(namespace, dependency.job)
        phase = phase_of(await api.get(VC_JOBS, key))
        if _is_met(dependency, phase):
            continue
        message = f"waits here for job {key.name} ({dependency.kind}), then submits; a job flow waits in the cluster"
        click.echo(message, err=True)
        async with aclosing(states_of(api, VC_JOBS, key, _lost)) as states:
            async for job in states:
                if job is None:
                    never = f"{dependency.kind} can never be satisfied; not submitted"
                    raise Failure(f"job {key.name} was deleted: {never}")
                if _is_met(dependency, phase_of(job)):
                    break


async def _lost(error: ApiError) -> None:
    """Do nothing: requests to a restarting server are retried silently."""


def _is_met(dependency: Dependency, phase: str) -> bool:
    """True if a job in this phase satisfies a dependency.

    Raises:
        Failure: it never will satisfy it.
    """
    if dependency.kind == "after":
        return phase not in ("", "Pending")
    if phase not in OVER:
        return False
    met = dependency.kind == "afterany" or (dependency.kind == "afterok") == (phase == "Completed")
    if not met:
        raise Failure(f"job {dependency.job} is {phase}: {dependency.kind} can never be satisfied; not submitted")
    return True
