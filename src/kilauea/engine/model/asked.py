"""Requests that depend only on the `spec` of a pod, calculated once for pods whose specs only differ in the node.

Pods of a gang differ in their names, nodes and metadata. A restarted scheduler reads all pods of the cluster, and would
otherwise repeat the calculation for each pod of a gang.
"""

from __future__ import annotations

from typing import NamedTuple

from kilauea.api import wellknown
from kilauea.api.core import Pod, PodSpec
from kilauea.api.resized import counted
from kilauea.api.spec_keys import spec_key
from kilauea.engine.model.service_classes import limits_of, qos_of
from kilauea.engine.model.task_specs import SpecTable, TaskSpec

MOST = 4096
"""Maximum number of cached specs; beyond it, all are forgotten."""
LONGEST = 16 * 1024
"""Size in bytes from which a spec is not cached: one can have a megabyte of tolerations."""
READ = frozenset(
    {
        wellknown.CARD_NAME,
        wellknown.QOS_LEVEL,
        wellknown.REVOCABLE_ZONE,
        wellknown.PREEMPTABLE,
        wellknown.NUMA_POLICY,
        wellknown.SCORING_TYPE,
        wellknown.SCORING_WEIGHT,
    }
)
"""Annotations that affect the requests of a pod, in addition to those that matter only to pods that request devices."""


class Asked(NamedTuple):
    """Requests of a pod.

    Attributes:
        spec: the part that determines where it may run.
        images: the number of its containers; the images of containers and image volumes with their tags.
        limits: of cpu and memory; 0 without one.
        qos: its class of service, by number.
    """

    spec: TaskSpec
    images: tuple[int, tuple[str, ...]]
    limits: tuple[int, int]
    qos: int


class AskedTable:
    """Caches the requests of pods by their specs.

    Args:
        specs: stores the parts that pods share.
    """

    def __init__(self, specs: SpecTable) -> None:
        self._specs = specs
        self._known: dict[bytes, Asked] = {}

    def of(self, pod: Pod) -> Asked:
        """Return the requests of a pod.

        Raises:
            QuantityError: a request is not a quantity.
        """
        resized = counted(pod)
        if resized is not pod:
            return self._find(pod)._replace(spec=self._specs.spec_of(resized))
        key = spec_key(pod.spec) if READ.isdisjoint(pod.annotations) else None
        if key is None:
            return self._find(pod)
        known = self._known.get(key)
        if known is None:
            known = self._find(pod)
            if len(key) <= LONGEST and _follows_from_spec(known.spec):
                if len(self._known) >= MOST:
                    self._known.clear()
                self._known[key] = known
        return known

    def _find(self, pod: Pod) -> Asked:
        return Asked(self._specs.spec_of(pod), _images(pod.spec), limits_of(pod.spec), qos_of(pod.spec))


def _follows_from_spec(spec: TaskSpec) -> bool:
    """True unless it depends on the name, namespace, labels or annotations of the pod."""
    return not (spec.selects_pods or spec.claims or spec.extended or spec.device_source is not None)


def _images(spec: PodSpec) -> tuple[int, tuple[str, ...]]:
    """The number of containers, and the images of containers and image volumes with explicit tags."""
    containers = (*(spec.init_containers or ()), *(spec.containers or ()))
    names = [c.image for c in containers if c.image]
    names += [v.image.reference for v in spec.volumes or () if v.image and v.image.reference]
    return len(containers), tuple(_with_tag(name) for name in names)


def _with_tag(image: str) -> str:
    return image if ":" in image.rsplit("/", 1)[-1] else image + ":latest"
