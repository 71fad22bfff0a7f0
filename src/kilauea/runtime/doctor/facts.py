"""The facts about a cluster: the objects for checks, each kind read once, or the reason why it cannot be read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from kilauea.api.kinds import (
    CONFIG_MAPS,
    DEFINITIONS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    EVENTS,
    LEASES,
    MUTATING_WEBHOOKS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    SECRETS,
    SERVICES,
    VALIDATING_WEBHOOKS,
    VC_JOBS,
)
from kilauea.api.ports import ApiError, Key, Obj, Resource
from kilauea.api.times import SECOND
from kilauea.client.advice import NOT_FOUND
from kilauea.client.rest import Client
from kilauea.client.transport import Transport, refusal

LISTED = (
    *(DEFINITIONS, DEPLOYMENTS, ENDPOINT_SLICES, LEASES, MUTATING_WEBHOOKS, POD_GROUPS, PODS, PRIORITY_CLASSES),
    *(QUEUES, SERVICES, VALIDATING_WEBHOOKS, VC_JOBS),
)
"""Kinds that are read as a whole."""
BINDS = {"fieldSelector": "involvedObject.kind=Pod,reason=Scheduled", "limit": "2000"}
"""Events to read: schedulers report binds with them. There can be a hundred thousand, so only some are read."""
AT_ONCE = 16
"""Number of concurrent access reviews."""


@dataclass(frozen=True)
class Right:
    """A permission to check.

    Attributes:
        verb: such as `list`.
        group: the API group of the resource.
        resource: the resource, maybe with a subresource: `pods/binding`.
        namespace: where; empty for all namespaces.
        name: of the object; empty for all.
    """

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        """Return the right in words: `list pods`, `create jobs.batch.volcano.sh`."""
        resource, _, subresource = self.resource.partition("/")
        full = f"{resource}.{self.group}" if self.group else resource
        return f"{self.verb} {full}{f'/{subresource}' if subresource else ''}"


@dataclass
class Facts:
    """A cluster as it was read.

    Attributes:
        server: its URL.
        fault: the error of the first request; None if the server answered it.
        version: the answer to `/version`.
        now: the server's time, in microseconds since 1970.
        objects: the objects of each kind, as decoded JSON.
        refused: unreadable kinds, with the error.
        maps, secrets: single objects; None for those that do not exist.
        rights: answers about rights, by user; the empty name is the current user. None: the server gave no answer.
    """

    server: str
    now: int
    fault: ApiError | None = None
    version: Mapping[str, Any] = field(default_factory=dict)
    objects: dict[Resource, Sequence[Obj]] = field(default_factory=dict)
    refused: dict[Resource, ApiError] = field(default_factory=dict)
    maps: dict[Key, Obj | None] = field(default_factory=dict)
    secrets: dict[Key, Obj | None] = field(default_factory=dict)
    rights: dict[str, dict[Right, bool | None]] = field(default_factory=dict)

    def all(self, resource: Resource) -> Sequence[Obj]:
        """All objects of a kind; none if it cannot be read."""
        return self.objects.get(resource, ())


class Reader:
    """Reads facts.

    Args:
        transport: the way to the server.
        server: its URL, for messages.
        now: the local time, in microseconds since 1970, used if the server does not return one.
    """

    def __init__(self, transport: Transport, server: str, now: int) -> None:
        self._transport = transport
        self._api = Client(transport, "kilauea-doctor")
        self.facts = Facts(server, now)
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def read_cluster(self) -> None:
        """Read the version and all listed kinds; without an answer, only the fault is known."""
        try:
            await self._read_version()
            await self._api.check_list(PODS)
        except ApiError as error:
            if error.code != 403:
                self.facts.fault = error
                return
        await asyncio.gather(*map(self._list, LISTED), self._read_binds())

    async def _read_version(self) -> None:
        answer = await self._transport.request("GET", "/version", {"accept": "application/json"}, b"")
        if answer.status != 200:
            raise refusal(answer)
        self.facts.version = _version_in(answer.body)
        if "date" in answer.headers:
            self.facts.now = round(parsedate_to_datetime(answer.headers["date"]).timestamp() * SECOND)

    async def _list(self, resource: Resource) -> None:
        try:
            listed = await self._api.list(resource)
        except ApiError as error:
            self.facts.refused[resource] = error
        else:
            self.facts.objects[resource] = [msgspec.json.decode(each) for each in listed.items]

    async def _read_binds(self) -> None:
        try:
            page = await self._api.read(EVENTS, "", "", BINDS)
        except ApiError as error:
            self.facts.refused[EVENTS] = error
        else:
            self.facts.objects[EVENTS] = msgspec.json.decode(page).get("items") or ()

    async def read_map(self, key: Key) -> None:
        """Read a ConfigMap."""
        await self._read(CONFIG_MAPS, key, self.facts.maps)

    async def read_secret(self, key: Key) -> None:
        """Read a Secret."""
        await self._read(SECRETS, key, self.facts.secrets)

    async def _read(self, resource: Resource, key: Key, into: dict[Key, Obj | None]) -> None:
        try:
            into[key] = await self._api.get(resource, key)
        except ApiError as error:
            if error.code == 404:
                into[key] = None
            else:
                self.facts.refused[resource] = error

    async def read_rights(self, user: str, rights: Sequence[Right]) -> None:
        """Check the permissions of a user; the empty name is the current user."""
        answers = await asyncio.gather(*(self._may(user, right) for right in rights))
        self.facts.rights[user] = dict(zip(rights, answers, strict=True))

    async def _may(self, user: str, right: Right) -> bool | None:
        kind = "SubjectAccessReview" if user else "SelfSubjectAccessReview"
        resource = Resource("authorization.k8s.io", "v1", f"{kind.lower()}s", kind, False)
        name, _, subresource = right.resource.partition("/")
        attributes = {"verb": right.verb, "group": right.group, "resource": name, "subresource": subresource}
        attributes |= {"namespace": right.namespace, "name": right.name}
        spec: dict[str, Any] = {"resourceAttributes": attributes}
        if user:
            spec |= {"user": user, "groups": groups_of(user)}
        body = {"apiVersion": resource.api_version, "kind": kind, "spec": spec}
        async with self._gate:
            try:
                answer = await self._api.create(resource, "", body)
            except ApiError:
                return None
        return bool((answer.get("status") or {}).get("allowed"))


def _version_in(body: bytes) -> Mapping[str, Any]:
    """Return the answer to `/version`.

    Raises:
        ApiError: it is not the answer of an API server.
    """
    try:
        found = msgspec.json.decode(body)
    except msgspec.DecodeError:
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("gitVersion"), str):
        text = body[:80].decode(errors="replace")
        raise ApiError(NOT_FOUND, "NotFound", f"GET /version: the response is not from an API server: {text}")
    return found


def groups_of(user: str) -> list[str]:
    """Return the groups of a service account, as its tokens have them."""
    namespace = user.split(":")[2]
    return ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]


def name_of(obj: Obj) -> str:
    """`Kind namespace/name`, as findings name objects."""
    metadata = obj["metadata"]
    key = Key(metadata.get("namespace", ""), metadata["name"])
    return f"{obj['kind']} {key}"
