"""Rules for new jobs."""

from __future__ import annotations

from collections.abc import Iterator

from kilauea.admission.jobs.plugins import PLUGINS, mpi_master
from kilauea.admission.jobs.policies import check_policies, duration_fault
from kilauea.admission.jobs.tasks import check_order, check_tasks, check_tiers
from kilauea.admission.jobs.volumes import check_volumes
from kilauea.admission.queues.tree import children_of, queue_named
from kilauea.admission.reading import name_fault
from kilauea.admission.review import Denied, Settings
from kilauea.admission.wording import not_found
from kilauea.api.batch import JobSpec
from kilauea.api.kinds import QUEUES
from kilauea.api.ports import View
from kilauea.api.wellknown import ROOT_QUEUE


def check_new(name: str, spec: JobSpec, view: View, settings: Settings) -> None:
    """Refuse a new job with all that is wrong with it.

    Raises:
        Denied: something is.
    """
    tasks = spec.tasks or []
    if not tasks:
        raise Denied("No task specified in job spec")
    plugins = spec.plugins or {}
    if "mpi" in plugins and mpi_master(plugins["mpi"]) not in [task.name for task in tasks]:
        raise Denied("The specified mpi master task was not found")
    found = [check_tiers(spec.network_topology), *check_tasks(name, tasks, settings), *_check_job(name, spec)]
    found += [_check_queue(spec.queue or "", view), check_order(tasks)]
    message = "".join(found).strip()
    if message:
        raise Denied(message)


def _check_job(name: str, spec: JobSpec) -> Iterator[str]:
    """The job as a whole."""
    fault = name_fault(name)
    if fault:
        yield f"create job with name {name} validate failed {fault}"
    if (spec.min_available or 0) > sum(task.replicas for task in spec.tasks or ()):
        yield " job 'minAvailable' should not be greater than total replicas in tasks;"
    yield check_policies(spec.policies, "spec.policies")
    for plugin in sorted(set(spec.plugins or ()) - set(PLUGINS)):
        yield f" unable to find job plugin: {plugin};"
    yield check_volumes(spec.volumes)
    yield duration_fault(spec.running_estimate, "spec.runningEstimate")


def _check_queue(name: str, view: View) -> str:
    """The queue is there, open, and one in which jobs run."""
    queue = queue_named(view, name)
    if queue is None:
        return f" unable to find job queue: {not_found(QUEUES, name)};"
    # A queue that its controller has not looked at yet is going to be open; Volcano refuses work for it until then.
    state = (queue.get("status") or {}).get("state") or "Open"
    found = ""
    if state != "Open":
        found = f" can only submit job to queue with state `Open`, queue `{name}` status is `{state}`;"
    if name == ROOT_QUEUE:
        return f"{found} can not submit job to root queue;"
    children = len(children_of(view, name))
    if children:
        found += f" can only submit job to leaf queue, queue `{name}` has {children} child queues;"
    return found
