"""All hooks, and how they are asked."""

from __future__ import annotations

import msgspec

from kilauea.admission import hypernodes, podgroups, queues
from kilauea.admission.kinds import HYPER_NODES, JOBS, POD_GROUPS, QUEUES
from kilauea.admission.review import Hook, JsonPatch, Review, Settings
from kilauea.api.batch import Job
from kilauea.api.meta import Object
from kilauea.api.ports import Resource, View
from kilauea.api.scheduling import PodGroup, Queue

HOOKS: tuple[Hook, ...] = (
    Hook("/podgroups/mutate", "mutatepodgroup.volcano.sh", POD_GROUPS, ("CREATE",), mutate=podgroups.mutate),
    Hook("/podgroups/validate", "validatepodgroup.volcano.sh", POD_GROUPS, ("CREATE",), validate=podgroups.validate),
    Hook("/queues/mutate", "mutatequeue.volcano.sh", QUEUES, ("CREATE",), mutate=queues.mutate),
    Hook(
        "/queues/validate",
        "validatequeue.volcano.sh",
        QUEUES,
        ("CREATE", "UPDATE", "DELETE"),
        validate=queues.validate,
    ),
    Hook(
        "/hypernodes/validate",
        "validatehypernodes.volcano.sh",
        HYPER_NODES,
        ("CREATE", "UPDATE"),
        validate=hypernodes.validate,
    ),
)
"""Every hook, in the order in which clusters list them."""

_TYPES: dict[Resource, type[Object]] = {JOBS: Job, POD_GROUPS: PodGroup, QUEUES: Queue}


def mutations(hook: Hook, review: Review, view: View, settings: Settings) -> JsonPatch:
    """What a hook wants to change.

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
