"""The APIServices that name a service: the group versions that another server serves."""

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
"""Versions of groups that this server serves only as long as no one else does."""
MOST_CONNECTIONS, MOST_OF_TENANT = 512, 128
"""Connections to one server: those of one that never answers must not keep users from the others."""
_DELETING = frozenset(("deletecollection", "list"))
_OUTSIDE = "run the API server outside of the cluster, and"

GroupVersion = tuple[str, str]
Resources = tuple[Mapping[str, Any], ...]
"""The entries of an APIResourceList."""


class Dialer(Protocol):
    """Connects to aggregated API servers."""

    async def connect(self, target: Target, *, verify: bool) -> Connection:
        """Open a connection by TLS, with the certificate of the front proxy; raises CallError.

        Args:
            target: the server.
            verify: False to accept any certificate.
        """
        ...


@dataclass(frozen=True, slots=True)
class RemoteService:
    """An APIService with a service.

    Attributes:
        name: of the APIService.
        group: that it is about.
        version: of the group.
        namespace: of the service.
        service: its name.
        port: of the service.
        bundle: certificates of the authority, in base64; empty for those that the system trusts.
        verify: False if any certificate is accepted.
        group_priority: orders groups, the largest first.
        version_priority: orders versions of a group, the largest first.
        is_available: True if the last check was passed.
        specification: all that checks depend on.
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
        """The path below which its kinds are."""
        return f"/apis/{self.group}/{self.version}"


class Found(NamedTuple):
    """The kinds of a server and their descriptions.

    Attributes:
        resources: the entries of its APIResourceList; None if it has never been read.
        v3: its description in OpenAPI v3; empty if it has none.
        v2: paths and definitions of the older form.
    """

    resources: Resources | None = None
    v3: bytes = b""
    v2: Mapping[str, Any] | None = None


class Aggregator:
    """The aggregated API servers behind one server; `generation` grows with every change of what they serve."""

    def __init__(self, backend: Backend, dialer: Dialer) -> None:
        self._backend = backend
        self._dialer = dialer
        self._sessions: dict[GroupVersion, Sessions] = {}
        self.services: dict[GroupVersion, RemoteService] = {}
        """By group and version; nothing else is looked at as long as this is empty."""
        self.behind: dict[str, set[str]] = {}
        """The names of the services behind them, by namespace."""
        self.found: dict[GroupVersion, Found] = {}
        self.generation = 0

    @contextmanager
    def following(self) -> Iterator[None]:
        """Know the APIServices in the store, from now on."""
        with self._backend.store.listening(PREFIX, lambda _: self.sync()):
            self.sync()
            yield

    def sync(self) -> None:
        """Read the APIServices as they are now."""
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
        """Return True for what this server serves, whatever users write: without it, it could not be mended."""
        if not key[0]:
            return True
        types = self._backend.registry.of_version(*key)
        return key not in REPLACEABLE and any(not each.is_custom for each in types)

    def of_path(self, path: str) -> RemoteService | None:
        """Return the service that a path belongs to; None if that is this server."""
        if not path.startswith("/apis/"):
            return None
        parts = path.split("/", 4)
        return self.services.get((parts[2], parts[3])) if len(parts) > 3 else None

    def note(self, key: GroupVersion, found: Found) -> None:
        """Keep what a server serves."""
        if key in self.services and self.found.get(key) != found:
            self.found[key] = found
            self.generation += 1

    def kinds(self) -> tuple[list[Resource], list[str]]:
        """Return the kinds whose collections can be deleted, and the versions of groups whose server is away."""
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
        """The connections of users to a server."""
        made = Sessions(MOST_CONNECTIONS, MOST_OF_TENANT, f"the server of APIService {service.name}")
        return self._sessions.setdefault(service.key, made)

    def target(self, service: RemoteService) -> Target:
        """Return the address of a server now; raises CallError if the service leads nowhere."""
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
    """Return an APIService; None for one of this server itself."""
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
