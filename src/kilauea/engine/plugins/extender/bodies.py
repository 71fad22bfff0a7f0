"""Bodies of the requests to an extender: tasks, jobs, nodes and queues as plain data.

The names of fields are those of Volcano's objects, which existing extenders read; what this scheduler does not know of
an object is left out. Amounts are milli-cores, bytes and thousandths.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.model.jobs import Job
from kilauea.engine.model.nodes import NodeTable
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.resources import CPU, MEMORY, PODS
from kilauea.engine.model.tasks import Task
from kilauea.engine.session import Session

Data = dict[str, Any]


def resource_body(amounts: Mapping[str, float]) -> Data:
    """An amount map, without the number of pods."""
    scalars = {name: value for name, value in sorted(amounts.items()) if name not in (CPU, MEMORY, PODS)}
    return {"MilliCPU": amounts.get(CPU, 0), "Memory": amounts.get(MEMORY, 0), "ScalarResources": scalars}


def task_body(session: Session, task: Task) -> Data:
    """A task."""
    request = resource_body(task.spec.requests)
    labels = dict(session.state.classes.get(task.label_class).labels)
    metadata = {"name": task.name, "namespace": task.namespace, "uid": task.uid, "labels": labels}
    return {
        "UID": task.uid,
        "Job": task.group,
        "Name": task.name,
        "Namespace": task.namespace,
        "TaskRole": task.role,
        "Resreq": request,
        "InitResreq": request,
        "NodeName": task.node,
        "Status": 1 << task.status,
        "Priority": task.priority,
        "Preemptable": task.preemptable is not False,
        "BestEffort": task.spec.best_effort,
        "Pod": {"metadata": metadata, "spec": {"nodeName": task.node} if task.node else {}},
    }


def job_body(session: Session, job: Job, *, tasks: bool = True) -> Data:
    """A job with its tasks."""
    body: Data = {
        "UID": job.key,
        "Name": job.name,
        "Namespace": job.namespace,
        "Queue": job.queue,
        "Priority": job.priority,
        "MinAvailable": job.min_available,
        "Preemptable": job.preemptable is not False,
        "Allocated": resource_body(job.allocated),
        "TotalRequest": resource_body(job.total_request()),
        "PodGroup": {
            "metadata": {"name": job.name, "namespace": job.namespace},
            "spec": {"minMember": job.min_available, "queue": job.queue},
            "status": {"phase": job.phase},
        },
    }
    if tasks:
        ordered = sorted(job.tasks.values(), key=lambda task: task.order)
        body["Tasks"] = {task.uid: task_body(session, task) for task in ordered}
    return body


def node_body(nodes: NodeTable, row: int) -> Data:
    """A node in its current state."""
    facts = nodes.facts[row]

    def amounts(column: NDArray[np.int64]) -> Data:
        return resource_body(nodes.axis.amounts(column))

    allocatable, used = nodes.allocatable[:, row], nodes.used[:, row]
    releasing, pipelined = nodes.releasing[:, row], nodes.pipelined[:, row]
    return {
        "Name": facts.name,
        "Allocatable": amounts(allocatable),
        "Capacity": amounts(allocatable),
        "Used": amounts(used),
        "Idle": amounts(allocatable - used),
        "Releasing": amounts(releasing),
        "Pipelined": amounts(pipelined),
        "Node": {"metadata": {"name": facts.name, "labels": dict(facts.labels)}},
    }


def queue_body(queue: Queue) -> Data:
    """A queue."""
    return {
        "UID": queue.name,
        "Name": queue.name,
        "Weight": queue.weight,
        "Allocated": resource_body(queue.allocated),
        "Queue": {"metadata": {"name": queue.name}, "spec": {"weight": queue.weight, "reclaimable": queue.reclaimable}},
    }


def session_body(session: Session) -> Data:
    """The whole session, for its opening."""
    size = len(session.table)
    jobs = session.jobs_where(np.ones(size, dtype=bool))
    return {
        "Jobs": {job.key: job_body(session, job) for job in jobs},
        "Nodes": {name: node_body(session.nodes, row) for row, name in enumerate(session.nodes.names)},
        "Queues": {name: queue_body(session.queues[name]) for name in sorted(session.queues)},
        "NamespaceInfo": {name: {"Name": name} for name in sorted(session.state.namespaces)},
        "RevocableNodes": {},
        "NodeList": None,
    }
