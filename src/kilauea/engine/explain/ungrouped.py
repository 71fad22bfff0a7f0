"""The reason why a pod is in no pod group: its controller creates none for a queue that does not take the pod."""

from __future__ import annotations

from kilauea.api.wellknown import GROUP_NAME, QUEUE_NAME
from kilauea.engine.extension import Refusal
from kilauea.engine.model.tasks import Task
from kilauea.engine.state import ClusterState


def why_ungrouped(task: Task, state: ClusterState) -> Refusal:
    """The reason why a pod that names no pod group has none."""
    queue = state.queues.get(task.queue)
    if task.queue and queue is None:
        message = f"queue {task.queue} of annotation {QUEUE_NAME} does not exist, so the pod gets no pod group"
        return Refusal("QueueNotFound", message, task.queue)
    if queue is not None and not queue.open:
        message = f"queue {queue.name} is {queue.state}, so the pod gets no pod group"
        return Refusal("QueueClosed", message, queue.name)
    message = (
        "the pod names no pod group, and its cluster has not created one yet: "
        f"check that the controllers run, or name a group in annotation {GROUP_NAME}"
    )
    return Refusal("NoPodGroup", message)
