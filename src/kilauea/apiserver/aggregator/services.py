"""The APIServices with a service: the group versions that other servers serve."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from kilauea.api.container_streams import Connection
from kilauea.api.ports import Resource
from kilauea.apiserver.backend import Backend
from kilauea.apiserver.dynamic.remote import CallError, Target, service_address
from kilauea.apiserver.rest.metrics import METRICS
from kilauea.apiserver.rest.objects import decode
from kilauea.apiserver.streams.sessions import Sessions

PREFIX = "/apiregistration.k8s.io/apiservices/"
REPLACEABLE = frozenset((each.group, each.version) for each in METRICS)
"""Group versions that this server serves only while no other server does."""
MOST_CONNECTIONS, MOST_OF_TENANT = 512, 128
"""Maximum connections to one server, in total and per tenant, so that one that never responds does not block others."""
_DELETING = frozenset(("deletecollection", "list"))
_OUTSIDE = "run the API server outside of the cluster, and"

GroupVersion = tuple[str, str]
Resources = tuple[Mapping[str, Any], ...]
"""The entries of an APIResourceList."""


class Dialer(Protocol):
    """Opens connections to aggregated API servers."""

    async def connect(self, target: Target, *, verify: bool) -> Connection:
        """Open a TLS connection with the certificate of the front proxy; raises CallError.

        Args:
            target: the server.
            verify: False to accept any certificate.
        """
        ...


@dataclass(frozen=True, slots=True)
class RemoteService:
    """An APIService with a service.

    Attributes:
        name: the name of the APIService.
        group: its group.
        version: its version.
        namespace: the namespace of the service.
        service: the name of the service.
        port: the port of the service.
        bundle: certificates of the authority, in base64; empty for those that the system trusts.
        verify: False if any certificate is accepted.
        group_priority: orders groups, the largest first.
        version_priority: orders versions of a group, the largest first.
        is_available: True if the last check was successful.
        specification: the fields that checks depend on.
    """

    name: str
    group: str
    version: str
    namespace: str
    service: str
    port: int
    bundle: str
    verify: bool
    group_priority: int
    version_priority: int
    is_available: bool
    specification: Mapping[str, Any]

    @property
    def key(self) -> GroupVersion:
        """Group and version."""
        return self.group, self.version

    @property
    def path(self) -> str:
        """The path prefix of its kinds."""
        return f"/apis/{self.group}/{self.version}"


class Found(NamedTuple):
    """The kinds of a server and their OpenAPI.

    Attributes:
        resources: the entries of its APIResourceList; None if it has never been read.
        v3: its OpenAPI v3 document; empty if it has none.
        v2: its paths and definitions in OpenAPI v2.
    """

    resources: Resources | None = None
    v3: bytes = b""
    v2: Mapping[str, Any] | None = None


class Aggregator:
    """The aggregated API servers of one server; `generation` increases with every change of what they serve."""

    def __init__(self, backend: Backend, dialer: Dialer) -> None:
        self._backend = backend
        self._dialer = dialer
        self._sessions: dict[GroupVersion, Sessions] = {}
        self.services: dict[GroupVersion, RemoteService] = {}
        """Services by group and version; while it is empty, requests check nothing else."""
        self.behind: dict[str, set[str]] = {}
        """The names of the services behind them, by namespace."""
        self.found: dict[GroupVersion, Found] = {}
        self.generation = 0

    @contextmanager
    def following(self) -> Iterator[None]:
        """Follow the APIServices in the store while this context is active."""
        with self._backend.store.listening(PREFIX, lambda _: self.sync()):
            self.sync()
            yield

    def sync(self) -> None:
        """Read the current APIServices."""
        read = (remote_service(decode(each.value)) for each in self._backend.store.list(PREFIX).items)
        services = {each.key: each for each in read if each is not None and not self._is_own(each.key)}
        if services != self.services:
            self.services = services
            self.behind = {}
            for each in services.values():
                self.behind.setdefault(each.namespace, set()).add(each.service)
            self.found = {key: each for key, each in self.found.items() if key in services}
            self._sessions = {key: each for key, each in self._sessions.items() if key in services}
            self.generation += 1

    def _is_own(self, key: GroupVersion) -> bool:
        """Return True for versions that this server always serves: users could not repair a cluster without them."""
        if not key[0]:
            return True
        types = self._backend.registry.of_version(*key)
        return key not in REPLACEABLE and any(not each.is_custom for each in types)

    def of_path(self, path: str) -> RemoteService | None:
        """Return the service of a path; None if this server serves it."""
        if not path.startswith("/apis/"):
            return None
        parts = path.split("/", 4)
        return self.services.get((parts[2], parts[3])) if len(parts) > 3 else None

    def note(self, key: GroupVersion, found: Found) -> None:
        """Record what a server serves."""
        if key in self.services and self.found.get(key) != found:
            self.found[key] = found
            self.generation += 1

    def kinds(self) -> tuple[list[Resource], list[str]]:
        """Return the kinds whose collections can be deleted, and the group versions whose server is unavailable."""
        kinds, away = [], []
        for (group, version), service in self.services.items():
            resources = self.found.get(service.key, Found()).resources
            if not service.is_available or resources is None:
                away.append(f"{group}/{version}")
                continue
            deleted = [each for each in resources if {*each["verbs"]} >= _DELETING]
            kinds += [Resource(group, version, each["name"], each["kind"], each["namespaced"]) for each in deleted]
        return kinds, away

    def sessions(self, service: RemoteService) -> Sessions:
        """Return the connections of users to a server."""
        made = Sessions(MOST_CONNECTIONS, MOST_OF_TENANT, f"the server of APIService {service.name}")
        return self._sessions.setdefault(service.key, made)

    def target(self, service: RemoteService) -> Target:
        """Return the current address of a server; raises CallError if the service has none."""
        try:
            authority = base64.b64decode(service.bundle).decode()
        except (binascii.Error, ValueError) as error:
            raise CallError(f"unable to load root certificates: {error}") from error
        store, connections = self._backend.store, self._backend.connections
        host, port = service_address(store, service.namespace, service.service, service.port, connections, _OUTSIDE)
        name = f"{service.service}.{service.namespace}.svc"
        shown = f"[{host}]" if ":" in host else host
        return Target(f"https://{shown}:{port}", host, port, name, authority)

    async def connect(self, service: RemoteService, target: Target) -> Connection:
        """Open a connection to a server; raises CallError."""
        return await self._dialer.connect(target, verify=service.verify)


def remote_service(obj: Mapping[str, Any]) -> RemoteService | None:
    """Parse an APIService; return None for one of this server."""
    spec, conditions = obj.get("spec") or {}, (obj.get("status") or {}).get("conditions") or ()
    service = spec.get("service")
    if service is None:
        return None
    return RemoteService(
        name=obj["metadata"]["name"],
        group=spec.get("group") or "",
        version=spec.get("version") or "",
        namespace=service.get("namespace") or "",
        service=service.get("name") or "",
        port=service.get("port") or 443,
        bundle=spec.get("caBundle") or "",
        verify=not spec.get("insecureSkipTLSVerify"),
        group_priority=spec.get("groupPriorityMinimum") or 0,
        version_priority=spec.get("versionPriority") or 0,
        is_available=any(each["type"] == "Available" and each.get("status") == "True" for each in conditions),
        specification=spec,
    )
