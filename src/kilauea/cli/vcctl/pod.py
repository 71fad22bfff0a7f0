"""`vcctl pod`: the pods of Volcano's jobs, with their status."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kilauea.cli.vcctl import options
from kilauea.cli.vcctl.command import CommandError, Group, Leaf

if TYPE_CHECKING:
    from kilauea.api.ports import Api, Obj
    from kilauea.cli.vcctl.cluster import Cluster

JOB_LABEL = "volcano.sh/job-name"
QUEUE_LABEL = "volcano.sh/queue-name"
QUEUE_ANNOTATION = "scheduling.volcano.sh/queue-name"
TASK_LABEL = "volcano.sh/task-spec"


async def list_pods(
    cluster: Cluster,
    queue: str,
    job: str,
    namespace: str,
    all_namespaces: bool,
    output: str,
    no_headers: bool,
    watch: bool,
) -> None:
    """Print pods of a job, of a queue, or of all jobs."""
    from kilauea.api.kinds import PODS
    from kilauea.cli.vcctl.listing import Listing, show_list
    from kilauea.cli.vcctl.tables import Column, Form, fitting

    wide = output == "wide"
    titles = [*(["Namespace"] if all_namespaces else []), "Name", "Ready", "Status", "Restart", "Age"]
    columns: list[Column] = [fitting(title, 8, 2) for title in titles]
    columns += [fitting(title) for title in ("Node", "Job", "Task", "Queue") if wide]
    status = titles.index("Status")
    listing = Listing(
        Form(PODS, columns, state=status, ages=(status + 1, status + 2)),
        lambda pod, now: _row(pod, now, all_namespaces, wide),
        lambda pod: _belongs(pod, job, queue),
    )
    async with cluster.connect() as api:
        where = "" if all_namespaces else namespace
        if job and queue:
            await _check_queue(api, where, job, queue)
        await show_list(api, listing, where, output, not no_headers, watch)


async def _check_queue(api: Api, namespace: str, job: str, queue: str) -> None:
    """Reject a job that is in another queue.

    Raises:
        CommandError: the job is in another queue.
    """
    from kilauea.api.kinds import PODS
    from kilauea.cli.vcctl.cluster import objects

    for pod in await objects(api, PODS, namespace, labels=f"{JOB_LABEL}={job}"):
        if (pod["metadata"].get("labels") or {}).get(QUEUE_LABEL) != queue:
            raise CommandError(f"the input vcjob {job} does not match the queue {queue}")


def _belongs(pod: Obj, job: str, queue: str) -> bool:
    """True if a pod belongs to the job, or else to the queue, or else to any job."""
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    if job:
        return bool(labels.get(JOB_LABEL) == job)
    if queue:
        return queue in (labels.get(QUEUE_LABEL), (metadata.get("annotations") or {}).get(QUEUE_ANNOTATION))
    return JOB_LABEL in labels


def _row(pod: Obj, now: int, all_namespaces: bool, wide: bool) -> list[str]:
    from kilauea.apiserver.tables.pods import pod_row

    metadata = pod["metadata"]
    cells = [*([metadata["namespace"]] if all_namespaces else []), *map(str, pod_row(dict(pod), now).cells[:5])]
    if wide:
        labels = metadata.get("labels") or {}
        node = (pod.get("spec") or {}).get("nodeName") or "-"
        queue = labels.get(QUEUE_LABEL) or (metadata.get("annotations") or {}).get(QUEUE_ANNOTATION)
        cells += [node, labels.get(JOB_LABEL) or "-", labels.get(TASK_LABEL) or "-", queue or "-"]
    return cells


def pod_group() -> Group:
    """The commands."""
    given: list[click.Parameter] = [
        options.text("-q", "--queue", help="Only pods in this queue.", metavar="NAME"),
        options.text("-j", "--job", help="Only pods of this job.", metavar="NAME"),
        options.namespace(),
        options.flag("--all-namespaces", help="List pods in all namespaces."),
        *options.listing(),
    ]
    return Group(
        "pod",
        "vcctl command line operation pod",
        [Leaf("list", list_pods, "list pod information created by vcjob", given)],
    )
