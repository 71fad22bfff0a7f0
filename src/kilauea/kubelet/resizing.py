"""Changes of cpu and memory of running containers: checks that the node has them, and changes the limits.

The actual resources of a container are in its status, those granted by the node in `Member.spec`, and the desired ones
in the pod's specification.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kilauea.api.kinds import PODS
from kilauea.api.ports import Obj
from kilauea.kubelet.container_config import limits_of
from kilauea.kubelet.container_runtime import ContainerError
from kilauea.kubelet.host import Host
from kilauea.kubelet.members import Member
from kilauea.nodes.occupants import NODE_NAME
from kilauea.nodes.resizing import DEFERRED, INFEASIBLE, PENDING, RETRY, Refusal, refusal_of, restarts

IN_PROGRESS = "PodResizeInProgress"
ERROR = "Error"
_EVENTS = {DEFERRED: "ResizeDeferred", INFEASIBLE: "ResizeInfeasible"}


class Resizer:
    """Resizes the containers of a pod.

    Args:
        host: the machine.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._refusal: Refusal | None = None
        self._error = ""
        self._is_in_progress = False
        self._retry = 0

    @property
    def due(self) -> int | None:
        """The time of the next attempt, in microseconds since 1970; None if none is needed."""
        return self._retry or None

    def is_due(self, pod: Obj, members: Sequence[Member]) -> bool:
        """Return True if a container does not have its desired resources, or a condition says so."""
        wanted = _wanted(pod)
        is_told = self._refusal is not None or self._is_in_progress
        return is_told or any(_differs(each, wanted) for each in members)

    def conditions(self) -> dict[str, dict[str, str]]:
        """Return the resize conditions of the pod, by type."""
        found = {}
        if self._refusal is not None:
            found[PENDING] = {"status": "True", "reason": self._refusal.reason, "message": self._refusal.message}
        if self._is_in_progress:
            why = {"reason": ERROR, "message": self._error} if self._error else {}
            found[IN_PROGRESS] = {"status": "True", **why}
        return found

    async def resize(self, pod: Obj, members: Sequence[Member], now: int) -> Sequence[Member]:
        """Give the containers of a pod their desired resources, if the node has them.

        Args:
            pod: the pod in the API.
            members: its containers.
            now: microseconds since 1970.

        Returns:
            The containers that must be restarted for it.
        """
        wanted = _wanted(pod)
        differing = [each for each in members if _differs(each, wanted)]
        before, self._error, self._retry = self._error, "", 0
        self._refuse(pod, self._refusal_of(pod) if differing else None)
        if self._refusal is not None:
            self._retry = now + RETRY if self._refusal.reason == DEFERRED else 0
            self._is_in_progress = False
            return ()
        ended = [each for each in differing if not await self._give(each, wanted[each.name])]
        self._is_in_progress = any(_differs(each, wanted) for each in members)
        if self._error:
            self._retry = now + RETRY
            if self._error != before:
                self._host.event(pod, "ResizeError", self._error, warning=True)
        return ended

    def _refusal_of(self, pod: Obj) -> Refusal | None:
        node = pod["spec"]["nodeName"]
        return refusal_of(pod, self._host.node(pod), lambda: self._host.view.indexed(PODS, NODE_NAME, node))

    def _refuse(self, pod: Obj, refusal: Refusal | None) -> None:
        if refusal is not None and (self._refusal is None or self._refusal.reason != refusal.reason):
            self._host.event(pod, _EVENTS[refusal.reason], refusal.message, warning=True)
        self._refusal = refusal

    async def _give(self, member: Member, wanted: Obj) -> bool:
        """Resize a container; return False if that requires a restart."""
        has = member.entry["resources"]
        member.spec = {**member.spec, "resources": wanted}
        if member.running and restarts(member.spec, has):
            return False
        try:
            if member.running:
                await self._check_memory(member)
                await self._host.runtime.resize(member.id, limits_of(member.spec))
        except ContainerError as error:
            self._error = str(error)
            return True
        member.grant()
        return True

    async def _check_memory(self, member: Member) -> None:
        """Reject a memory limit that would kill the container at once.

        Raises:
            ContainerError: it uses more than the limit.
        """
        limit = limits_of(member.spec).memory
        used = (await self._host.runtime.usage([member.id])).get(member.id)
        if limit is not None and used is not None and limit < used.memory:
            message = f'attempting to set container "{member.name}" memory limit ({limit}) below current usage'
            raise ContainerError("ResizeError", f"cannot decrease memory limits: {message} ({used.memory})")


def _wanted(pod: Obj) -> Mapping[str, Obj]:
    """The desired resources of the containers of a pod, by name."""
    spec: Mapping[str, Any] = pod["spec"]
    every = (*(spec.get("initContainers") or ()), *spec["containers"])
    return {each["name"]: each.get("resources") or {} for each in every}


def _differs(member: Member, wanted: Mapping[str, Obj]) -> bool:
    """Return True if a container does not have its desired resources, as far as its status shows."""
    has = member.entry.get("resources")
    return has is not None and member.name in wanted and has != wanted[member.name]
