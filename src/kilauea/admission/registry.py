"""All hooks, and how they are called."""

from __future__ import annotations

import msgspec

from kilauea.admission import cronjobs, hypernodes, jobflows, jobs, podgroups, pods, queues
from kilauea.admission.review import Hook, JsonPatch, Operation, Review, Settings
from kilauea.api.batch import Job
from kilauea.api.kinds import HYPER_NODES, JOB_FLOWS, POD_GROUPS, PODS, QUEUES, VC_CRON_JOBS, VC_JOBS
from kilauea.api.meta import Object
from kilauea.api.ports import Resource, View
from kilauea.api.scheduling import PodGroup, Queue

_CREATE: tuple[Operation, ...] = ("CREATE",)
_WRITE: tuple[Operation, ...] = ("CREATE", "UPDATE")
_ALL: tuple[Operation, ...] = ("CREATE", "UPDATE", "DELETE")

HOOKS: tuple[Hook, ...] = (
    Hook("/jobs/mutate", "mutatejob.volcano.sh", VC_JOBS, _WRITE, mutate=jobs.mutate),
    Hook("/jobs/validate", "validatejob.volcano.sh", VC_JOBS, _WRITE, validate=jobs.validate),
    Hook("/cronjobs/validate", "validatecronjob.volcano.sh", VC_CRON_JOBS, _WRITE, validate=cronjobs.validate),
    Hook("/jobflows/validate", "validatejobflow.volcano.sh", JOB_FLOWS, _WRITE, validate=jobflows.validate),
    Hook("/podgroups/mutate", "mutatepodgroup.volcano.sh", POD_GROUPS, _CREATE, mutate=podgroups.mutate),
    Hook("/podgroups/validate", "validatepodgroup.volcano.sh", POD_GROUPS, _CREATE, validate=podgroups.validate),
    Hook("/pods/mutate", "mutatepod.volcano.sh", PODS, _CREATE, mutate=pods.mutate),
    Hook("/pods/validate", "validatepod.volcano.sh", PODS, _CREATE, validate=pods.validate),
    Hook("/queues/mutate", "mutatequeue.volcano.sh", QUEUES, _CREATE, mutate=queues.mutate),
    Hook("/queues/validate", "validatequeue.volcano.sh", QUEUES, _ALL, validate=queues.validate),
    Hook("/hypernodes/validate", "validatehypernodes.volcano.sh", HYPER_NODES, _WRITE, validate=hypernodes.validate),
)
"""Every hook, in the order in which clusters list them."""

_TYPES: dict[Resource, type[Object]] = {VC_JOBS: Job, POD_GROUPS: PodGroup, QUEUES: Queue}


def mutations(hook: Hook, review: Review, view: View, settings: Settings) -> JsonPatch:
    """Return the changes that a hook makes.

    Custom resources are completed before the server has checked them. One whose fields are of other types is left
    alone: the check that follows refuses it, with better words.

    Raises:
        Denied: the hook refuses the request.
    """
    if hook.mutate is None:
        return []
    type_ = _TYPES.get(review.resource)
    if type_ is not None:
        try:
            msgspec.convert(review.obj, type_)
        except (msgspec.ValidationError, RecursionError):
            return []
    return hook.mutate(review, view, settings)
