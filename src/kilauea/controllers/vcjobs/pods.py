"""The pods of a Volcano job, before plugins extend them.

Thousands of pods are created from one template, so they share its constant parts: only the metadata and the top level
of the spec and of each container are copied. Code that extends a list in them must create a new list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kilauea.api.kinds import VC_JOBS
from kilauea.api.ports import Obj
from kilauea.api.wellknown import (
    COOLDOWN_TIME,
    GROUP_NAME,
    MAX_UNAVAILABLE,
    MIN_AVAILABLE,
    PREEMPTABLE,
    REVOCABLE_ZONE,
    TASK_ROLE,
)
from kilauea.controllers.objects import annotations_of, labels_of, name_of, spec_of, status_of, uid_of
from kilauea.controllers.pods import from_template
from kilauea.controllers.vcjobs.names import (
    FORWARDING,
    JOB_NAME,
    JOB_NAMESPACE,
    JOB_VERSION,
    NUMA_POLICY,
    PARTITION_ID,
    QUEUE_NAME,
    RETRY_COUNT,
    TASK_INDEX,
    TEMPLATE_UID,
    group_name,
    pod_name,
    queue_of,
    task_name,
)
from kilauea.controllers.vcjobs.volumes import claim_name, hashed


def new_pod(job: Obj, task: Mapping[str, Any], index: int) -> dict[str, Any]:
    """The pod with an index in a task, before plugins.

    Args:
        job: the job; volumes without a claim name yet get the names that `volumes_of` tries first.
        task: one of its tasks.
        index: from 0.
    """
    pod = from_template(task.get("template") or {}, VC_JOBS, job, pod_name(job, task, index))
    metadata = pod["metadata"]
    metadata["annotations"] = {
        **_inherited(annotations_of(job), metadata.get("annotations") or {}),
        **_marks(job, task, index),
    }
    metadata["labels"] = _labels(job, task, index, metadata.get("labels") or {})
    spec = pod["spec"] = {**pod["spec"]}
    for part in ("containers", "initContainers"):
        if spec.get(part):
            spec[part] = [{**each} for each in spec[part]]
    given = spec_of(job)
    for name in ("schedulerName", "priorityClassName"):
        if not spec.get(name) and given.get(name):
            spec[name] = given[name]
    if given.get("volumes"):
        _mount(job, task, index, spec)
    return pod


def _marks(job: Obj, task: Mapping[str, Any], index: int) -> dict[str, str]:
    """Annotations that identify the job, the task and the index of the pod."""
    status, name = status_of(job), task_name(task)
    marks = {
        GROUP_NAME: group_name(job),
        JOB_NAME: name_of(job),
        JOB_VERSION: str(status.get("version", 0)),
        RETRY_COUNT: str(status.get("retryCount", 0)),
        QUEUE_NAME: queue_of(job),
        TASK_INDEX: str(index),
        TASK_ROLE: name,
        TEMPLATE_UID: f"{name_of(job)}-{name}",
    }
    if task.get("topologyPolicy"):
        marks[NUMA_POLICY] = task["topologyPolicy"]
    if annotations_of(job).get(FORWARDING) == "true":
        marks[FORWARDING] = "true"
    return marks


def _inherited(of_job: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Annotations of the template, and those of the job that the template does not set."""
    names = [PREEMPTABLE, COOLDOWN_TIME, REVOCABLE_ZONE]
    if MIN_AVAILABLE not in own and MAX_UNAVAILABLE not in own:
        names.append(MIN_AVAILABLE if MIN_AVAILABLE in of_job else MAX_UNAVAILABLE)
    return {**{name: of_job[name] for name in names if name in of_job}, **own}


def _labels(job: Obj, task: Mapping[str, Any], index: int, own: Mapping[str, str]) -> dict[str, str]:
    of_job = labels_of(job)
    labels = {name: of_job[name] for name in (PREEMPTABLE, COOLDOWN_TIME) if name in of_job}
    labels.update(own)
    labels[JOB_NAME] = name_of(job)
    labels[JOB_NAMESPACE] = job["metadata"]["namespace"]
    labels[QUEUE_NAME] = queue_of(job)
    labels[TASK_INDEX] = str(index)
    labels[TASK_ROLE] = task_name(task)
    policy = task.get("partitionPolicy")
    if policy:
        labels[PARTITION_ID] = str(index // policy["partitionSize"])
    if annotations_of(job).get(FORWARDING) == "true":
        labels[FORWARDING] = "true"
    return labels


# --- volumes


def _mount(job: Obj, task: Mapping[str, Any], index: int, spec: dict[str, Any]) -> None:
    """Mount the volumes of the job in all containers, except init containers."""
    names = dict(_volume_names(job, task, index))
    added = [{"name": name, "persistentVolumeClaim": {"claimName": claim}} for claim, name in names.items()]
    spec["volumes"] = [*(spec.get("volumes") or ()), *added]
    mounts = [
        {"name": names[claim_name(job, each)], "mountPath": each["mountPath"]} for each in spec_of(job)["volumes"]
    ]
    for container in spec["containers"]:
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), *mounts]


def _volume_names(job: Obj, task: Mapping[str, Any], index: int) -> Iterator[tuple[str, str]]:
    """Each claim, and the name of its volume in this pod; a claim that is mounted twice is one volume."""
    version = status_of(job).get("version", 0)
    for claim in {claim_name(job, each): None for each in spec_of(job)["volumes"]}:
        yield claim, f"{name_of(job)}-{hashed(f'{uid_of(job)}/{task_name(task)}/{index}/{version}/{claim}')}"
