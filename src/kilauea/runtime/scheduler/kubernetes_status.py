"""The condition of a PodGroup of Kubernetes, as kube-scheduler writes it.

It is true once the group was scheduled, and stays so, even if more of its pods wait later. A group with too few pods
has no condition: it is not tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kilauea.api.kubernetes_groups import SCHEDULED, KubernetesPodGroup
from kilauea.engine.model import status
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.kubernetes_groups import was_scheduled


class Content(NamedTuple):
    """The content of the condition."""

    status: str
    reason: str
    message: str


def wanted(group: KubernetesPodGroup, job: Job, said: str) -> Content | None:
    """The condition that a group should get; None if it is current, or not needed.

    Args:
        group: as the API has it.
        job: the group and its pods in the engine.
        said: the reason why it waits, if stable.
    """
    if was_scheduled(group):
        return None
    placed = job.count((*status.HOLDING, *status.ENDED))
    if placed and placed >= job.min_available:
        return Content("True", "Scheduled", "")
    if not said or not job.tasks or job.valid_count < job.min_available:
        return None
    content, known = Content("False", "Unschedulable", said), group.scheduled
    has = Content(known.status, known.reason or "", known.message or "") if known is not None else None
    return None if has == content else content


def patch_of(group: KubernetesPodGroup, content: Content, version: str, now: str) -> Mapping[str, Any]:
    """The strategic merge patch that writes the condition to this group, but not to a later one of the same name.

    Args:
        group: as the API has it; a condition whose status stays keeps its time.
        content: the condition.
        version: the version of the API in which it is written.
        now: the time, RFC 3339.
    """
    known, generation = group.scheduled, group.metadata.generation
    since = known.last_transition_time if known is not None and known.status == content.status else None
    condition = {"type": SCHEDULED[version], **content._asdict(), "lastTransitionTime": since or now}
    if generation:
        condition["observedGeneration"] = generation
    identity = {"metadata": {"uid": group.metadata.uid}} if group.metadata.uid else {}
    return {**identity, "status": {"conditions": [condition]}}
