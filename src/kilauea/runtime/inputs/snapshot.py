"""The current state of a cluster, for plans: every kind that scheduling uses, listed once over the API."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from kilauea.api.kinds import (
    CONFIG_MAPS,
    CRON_JOBS,
    EVENTS,
    JOBS,
    NODE_METRICS,
    NODES,
    POD_GROUPS,
    PODS,
    QUEUES,
    VC_CRON_JOBS,
    VC_JOBS,
)
from kilauea.api.meta import Object
from kilauea.api.ports import CREATION_REFUSED, Api, ApiError, Listed, Resource
from kilauea.client.access import Access
from kilauea.client.finding import find_access
from kilauea.client.http import HttpTransport
from kilauea.client.rest import Client
from kilauea.controllers.configuration import FILE, PLACE
from kilauea.controllers.vcjobs.refusals import CLAIM_REFUSED, GROUP_REFUSED, PLUGIN_REFUSED, POD_REFUSED
from kilauea.runtime.inputs.device_configs import USUAL, named_in, read_config
from kilauea.runtime.inputs.reading import Unusable, read
from kilauea.runtime.inputs.resources import RESOURCES, head_of, versions_of

WORKLOADS = (VC_JOBS, VC_CRON_JOBS, JOBS, CRON_JOBS)
"""Kinds of workloads that are read without decoding."""
STATES_ALONE = (VC_CRON_JOBS, JOBS, CRON_JOBS)
"""Workloads that only explanations read; a plan is complete without them."""

STEP = 200
"""Number of objects to read before other tasks may run."""
MISSING = (403, 404)
"""Status codes for kinds that a cluster does not have, or that this user may not list."""


@dataclass
class Snapshot:
    """The objects of a cluster.

    Attributes:
        server: address of the API server.
        objects: objects that scheduling reads.
        workloads: stored jobs and cron jobs of Volcano and of Kubernetes.
        configuration: the text of the scheduler's configuration in the cluster; empty if there is none.
        refusals: the server's message for refused pods, by uid of their workload.
        warnings: messages about kinds and objects that could not be read.
    """

    server: str
    objects: list[Object] = field(default_factory=list)
    workloads: list[dict[str, Any]] = field(default_factory=list)
    configuration: str = ""
    refusals: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def refused(self) -> dict[str, str]:
        """The server's message for refused pods, by workload (`Kind namespace/name`)."""
        heads = [(obj.kind, obj.key, obj.metadata.uid) for obj in self.objects]
        for workload in self.workloads:
            metadata = workload["metadata"]
            heads.append((workload["kind"], f"{metadata.get('namespace')}/{metadata['name']}", metadata.get("uid")))
        return {f"{kind} {key}": self.refusals[uid] for kind, key, uid in heads if uid in self.refusals}


def snapshot(kubeconfig: Path | None, environment: Mapping[str, str]) -> Snapshot:
    """A snapshot of the selected cluster.

    Args:
        kubeconfig: the file that the user named; None for the default files.
        environment: environment variables of the process.

    Raises:
        AccessError: no usable description of the cluster.
        ApiError: it does not answer, or refuses to show its pods, nodes, groups or queues.
    """
    return asyncio.run(take_snapshot(find_access(kubeconfig, environment)))


async def take_snapshot(access: Access) -> Snapshot:
    """The current state of a cluster.

    Raises:
        ApiError: it does not answer, or refuses to show its pods, nodes, groups or queues.
    """
    async with HttpTransport(access) as transport:
        return await read_snapshot(Client(transport, "kilauea-plan", Random(0)), access.server)


async def read_snapshot(client: Api, server: str = "") -> Snapshot:
    """The current state of a cluster, read through a client.

    Raises:
        ApiError: it does not answer, or refuses to show its pods, nodes, groups or queues.
    """
    found = Snapshot(server)
    kinds: list[tuple[str, Resource]] = [*RESOURCES.items(), *(("", resource) for resource in WORKLOADS)]
    lists = await asyncio.gather(*(_listed(client, resource, found) for _, resource in kinds))
    for (kind, resource), listed in zip(kinds, lists, strict=True):
        if kind:
            await _take(found, kind, listed)
        else:
            # Items of a list of Kubernetes' own kinds do not repeat the kind.
            head = {"apiVersion": resource.api_version, "kind": resource.kind}
            found.workloads += [head | msgspec.json.decode(data) for data in listed]
    found.configuration = await _configuration(client)
    found.objects += await _device_configs(client, found.configuration)
    found.refusals = await _refusals(client)
    return found


async def _listed(client: Api, resource: Resource, found: Snapshot) -> Sequence[bytes]:
    """All objects of a kind; none, and a warning, if the cluster does not have or show it."""
    try:
        listed = await _list_any(client, versions_of(resource))
    except ApiError as error:
        if resource == NODE_METRICS:  # served by an extension, which may be unavailable
            return ()
        needed = resource in (PODS, NODES, POD_GROUPS, QUEUES)
        if error.code not in MISSING or needed:
            error.add_note(f"list of {resource.plural}")
            raise
        if error.code == 403 and resource not in STATES_ALONE:
            found.warnings.append(f"{resource.plural} are left out: {error.message}")
        return ()
    return listed.items


async def _list_any(client: Api, versions: Sequence[Resource]) -> Listed:
    """All objects of a kind, in the first version that is served."""
    for resource in versions[:-1]:
        try:
            return await client.list(resource)
        except ApiError as error:
            if error.code != 404:
                raise
    return await client.list(versions[-1])


async def _take(found: Snapshot, kind: str, items: Sequence[bytes]) -> None:
    """Read objects, in steps: the advisor of `kilauea up` does this in the process of the server."""
    for number, data in enumerate(items, 1):
        if number % STEP == 0:
            await asyncio.sleep(0)
        try:
            obj = read(kind, data)
        except Unusable as error:
            found.warnings.append(f"{kind} {head_of(data).key}: {error}; left out")
            continue
        found.objects.append(obj)


async def _refusals(client: Api) -> dict[str, str]:
    """Event messages about rejected pods and other objects of a job, the newest of each workload."""
    said: list[tuple[str, str, str]] = []
    wordings = (CREATION_REFUSED, POD_REFUSED, GROUP_REFUSED, CLAIM_REFUSED, PLUGIN_REFUSED)
    for reason in sorted({wording.reason for wording in wordings}):
        try:
            listed = await client.list(EVENTS, fields=f"reason={reason}")
        except ApiError:
            return {}
        for event in map(msgspec.json.decode, listed.items):
            about = event["involvedObject"]
            if about.get("namespace", "") not in ("", event["metadata"]["namespace"]):
                continue  # who may write events in one namespace says nothing about others
            words = str(event.get("message") or "")
            for wording in wordings:
                words = words.removeprefix(wording.words)
            time = str(event.get("lastTimestamp") or event.get("eventTime") or "")
            said.append((time, str(about.get("uid")), words))
    return {uid: words for _, uid, words in sorted(said, key=lambda each: each[0])}


async def _device_configs(client: Api, configuration: str) -> list[Object]:
    """The ConfigMaps of shared devices: the one with the usual name, and the one that the configuration names."""
    keys = dict.fromkeys([USUAL, named_in(configuration) or USUAL])
    return [config for key in keys if (config := await read_config(client, key)) is not None]


async def _configuration(client: Api) -> str:
    try:
        config = await client.get(CONFIG_MAPS, PLACE)
    except ApiError:
        return ""
    return str((config.get("data") or {}).get(FILE, ""))
