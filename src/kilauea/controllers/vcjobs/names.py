"""Names of the objects of a Volcano job, and the annotations and labels that identify their owner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kilauea.api.ports import Obj
from kilauea.api.wellknown import DEFAULT_QUEUE
from kilauea.controllers.objects import name_of, spec_of, uid_of

JOB_NAME, JOB_NAMESPACE, JOB_VERSION = "volcano.sh/job-name", "volcano.sh/job-namespace", "volcano.sh/job-version"
TASK_INDEX = "volcano.sh/task-index"
QUEUE_NAME = "volcano.sh/queue-name"
RETRY_COUNT = "volcano.sh/job-retry-count"
TEMPLATE_UID = "volcano.sh/template-uid"
PARTITION_ID = "volcano.sh/partition-id"
NUMA_POLICY = "volcano.sh/numa-topology-policy"
FORWARDING = "volcano.sh/job-forwarding"
"""On a job that is forwarded to other clusters, `true`; its pods inherit it."""


def task_name(task: Mapping[str, Any]) -> str:
    """The name of a task; admission sets one, so the default only matters without admission."""
    return str(task.get("name") or "default")


def pod_name(job: Obj, task: Mapping[str, Any], index: int) -> str:
    """The name of the pod with an index in a task."""
    return f"{name_of(job)}-{task_name(task)}-{index}"


def group_name(job: Obj) -> str:
    """The name of the pod group of a job."""
    return f"{name_of(job)}-{uid_of(job)}"


def queue_of(job: Obj) -> str:
    """The queue of a job."""
    return str(spec_of(job).get("queue") or DEFAULT_QUEUE)
