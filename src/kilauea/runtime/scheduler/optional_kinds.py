"""Kinds that a cluster may lack, or that the scheduler may not read: it schedules without them, and retries later.

A server also answers 403 for kinds that it does not serve, if permissions do not include them. A 403 is accepted as
long as the kind has never been followed; later ones are faults like any other, and known objects stay.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import count
from random import Random

from kilauea.api.kinds import KUBERNETES_GROUP
from kilauea.api.ports import Api, ApiError, Clock, Resource
from kilauea.client.backoff import pause
from kilauea.client.reflector import Reflector
from kilauea.runtime.inputs.resources import RESOURCES, versions_of
from kilauea.runtime.scheduler.feed import Feed

FIRST_LOOK, LONGEST_PAUSE = 5.0, 300.0
"""Shortest and longest time until the next attempt to read a kind, in seconds."""

WITHOUT = {
    "ResourceClaim": "pods with resource claims wait, and no extended resource is served by devices",
    "ResourceClaimTemplate": "pods whose claims are created from templates wait until the claims exist",
    "ResourceSlice": "no devices are known, so pods whose claims have none wait",
    "DeviceClass": "claims of device classes wait, and no extended resource is served by devices",
    "DeviceTaintRule": "taints of DeviceTaintRules are ignored",
    KUBERNETES_GROUP: "pods with a scheduling group of Kubernetes wait",
    "HyperNode": "network topology is unknown, so gangs that must be close together wait",
    "ReplicationController": "pods of ReplicationControllers are not spread by default",
    "CSIDriver": "the capacity of storage drivers is ignored",
    "CSINode": "limits of volumes per node are ignored",
    "CSIStorageCapacity": "volume claims wait for storage drivers that report their capacity",
    "VolumeAttachment": "volumes that are attached to a node without a pod do not count for its limit of volumes",
    "Numatopology": "NUMA nodes are unknown: with the plugin numa-aware, pods with a NUMA policy wait",
    "NodeShard": "shards are unknown: no pods are placed in hard mode, and pods are placed on any node in soft mode",
}
"""By kind: the objects that are ignored without it."""

log = logging.getLogger(__name__)


class OptionalKind:
    """Follows a kind that may be missing or unreadable.

    Args:
        api: the cluster.
        kind: the kind.
        reflector: follows it.
        feed: receives an empty list while it cannot be read.
        found: called with the version in which it is served.
        clock: for pauses.
        rng: randomness for pauses.
    """

    def __init__(
        self,
        api: Api,
        kind: str,
        reflector: Reflector,
        feed: Feed,
        found: Callable[[Resource], None],
        clock: Clock,
        rng: Random,
    ) -> None:
        self._api = api
        self._kind = kind
        self._reflector = reflector
        self._feed = feed
        self._found = found
        self._clock = clock
        self._rng = rng
        self._said = ""
        self._may_watch = True
        self._has_objects = True

    async def run(self) -> None:
        """Follow the kind, until cancelled."""
        for looks in count():
            try:
                resource = await self._served()
                if resource is not None:
                    await self._follow(resource)
                self._say(f"the cluster does not serve {self._plural}; scheduling without them")
            except ApiError as refusal:
                self._say_refused(refusal)
            if self._has_objects:
                self._feed.unreadable(self._kind)
                self._has_objects = False
            self._reflector.complete.set()
            await self._clock.sleep(min(FIRST_LOOK * 2 ** min(looks, 10), LONGEST_PAUSE))

    @property
    def _plural(self) -> str:
        of = RESOURCES[self._kind]
        return of.plural if of.kind == self._kind else f"{of.plural}.{of.group}"

    async def _served(self) -> Resource | None:
        """The newest version that the cluster serves; None if it serves none.

        Raises:
            ApiError: the scheduler may not list it.
        """
        refusal: ApiError | None = None
        for resource in versions_of(RESOURCES[self._kind]):
            try:
                if await self._is_served(resource):
                    return resource
            except ApiError as error:
                refusal = refusal or error
        if refusal is not None:
            raise refusal
        return None

    async def _is_served(self, resource: Resource) -> bool:
        attempts = 0
        while True:
            try:
                await self._api.check_list(resource)
                return True
            except ApiError as error:
                if error.code == 404:
                    return False
                if error.code == 403:
                    raise
                attempts += 1
                await self._clock.sleep(pause(attempts, self._rng))

    async def _follow(self, resource: Resource) -> None:
        """Follow the kind in a version.

        Raises:
            ApiError: the scheduler may not list or watch it.
        """
        if self._said and self._may_watch:
            log.info("%s can be read now", self._plural)
            self._said = ""
        self._reflector.resource = resource
        self._found(resource)
        self._has_objects = True
        try:
            await self._reflector.run()
        except ApiError:
            self._may_watch = False
            raise

    def _say(self, message: str, level: int = logging.INFO) -> None:
        """Log a message, once."""
        if message != self._said:
            log.log(level, message)
            self._said = message

    def _say_refused(self, refusal: ApiError) -> None:
        of = RESOURCES[self._kind]
        name = f"{of.plural}.{of.group}" if of.group else of.plural
        rights = f"grant the scheduler get, list and watch on {name}"
        self._say(f"{self._plural} cannot be read: {refusal}; {WITHOUT[self._kind]}; {rights}", logging.WARNING)
