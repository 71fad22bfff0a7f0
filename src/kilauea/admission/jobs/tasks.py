"""The tasks of a job: their numbers, the names and templates of their pods, and their dependencies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kilauea.admission.graphs import first_unknown, has_circle
from kilauea.admission.jobs.policies import check_policies
from kilauea.admission.reading import name_fault, read
from kilauea.admission.review import Settings
from kilauea.api.batch import Task
from kilauea.api.core import Container, PodSpec
from kilauea.api.quantity import QuantityError, parse_milli
from kilauea.api.scheduling import NetworkTopology

TWO_TIERS = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"


def check_tasks(job: str, tasks: Sequence[Task], settings: Settings) -> Iterator[str]:
    """Errors in the tasks of a new job, up to the first task whose name is a duplicate."""
    names: set[str] = set()
    for index, task in enumerate(tasks):
        name = task.name or ""
        if task.min_available is not None and task.min_available > task.replicas:
            yield f" 'minAvailable' is greater than 'replicas' in task: {name}, job: {job};"
        if name in names:
            yield f" duplicated task name {name};"
            return
        names.add(name)
        yield check_policies(task.policies, "spec.tasks.policies")
        yield _check_pods(job, task, index, settings)
        yield check_partitions(job, task)


def _check_pods(job: str, task: Task, index: int, settings: Settings) -> str:
    """The name that a pod of a task would have, and the template."""
    pod = f"{job}-{task.name or ''}-{index}"
    fault = name_fault(pod)
    found = f"create pod with name {pod} validate failed {fault};" if fault else ""
    errors = settings.check_template(task.template or {})
    if errors:
        return f"{found}spec.task[{index}].{''.join(f'{each}. ' for each in errors)}"
    return found + _check_numa(task, index)


# --- whole CPUs


def _check_numa(task: Task, index: int) -> str:
    """A task with a NUMA policy asks for whole CPUs in every container."""
    if task.topology_policy in (None, "", "none"):
        return ""
    template: Mapping[str, Any] = task.template or {}
    spec = read(template.get("spec") or {}, PodSpec, f"spec.tasks[{index}].template.spec")
    for containers in (spec.containers, spec.init_containers):
        for number, container in enumerate(containers or ()):
            if not _asks_for_whole_cpus(container):
                return f"the cpu request isn't an integer in spec.task[{index}] container[{number}]."
    return ""


def _asks_for_whole_cpus(container: Container) -> bool:
    resources = container.resources
    amounts = (resources.requests or resources.limits or {}) if resources else {}
    try:
        milli = parse_milli(amounts.get("cpu", 0))
    except QuantityError:
        return False
    return milli > 0 and milli % 1000 == 0


# --- partitions


def check_partitions(job: str, task: Task) -> str:
    """Describe the error in the groups into which a task is split."""
    parts = task.partition_policy
    if parts is None:
        return ""
    found, place = "", f"in task: {task.name or ''}, job: {job}"
    if parts.total_partitions <= 0:
        found += f"'TotalPartitions' must be greater than 0 {place}"
    if parts.partition_size <= 0:
        found += f"'PartitionSize' must be greater than 0 {place}"
    if task.replicas != parts.total_partitions * parts.partition_size:
        found += f"'Replicas' are not equal to TotalPartitions*PartitionSize {place}"
    least = parts.min_partitions or 0
    if task.min_available is not None and least > 0 and task.min_available != least * parts.partition_size:
        found += f"'MinAvailable' is not equal to MinPartitions*PartitionSize {place}"
    return found + check_tiers(parts.network_topology)


def check_tiers(topology: NetworkTopology | None) -> str:
    """A limit in the network is given by number or by name, not both."""
    both = topology and topology.highest_tier_allowed is not None and topology.highest_tier_name
    return TWO_TIERS if both else ""


# --- order


def check_order(tasks: Sequence[Task]) -> str:
    """Tasks that wait for others must all be able to start."""
    if all(task.depends_on is None for task in tasks):
        return ""
    edges = {task.name or "": (task.depends_on.name if task.depends_on else None) or () for task in tasks}
    if first_unknown(edges) is None and not has_circle(edges):
        return ""
    return " job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG);"
