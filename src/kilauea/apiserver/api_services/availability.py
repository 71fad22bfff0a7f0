"""Checks that aggregated API servers respond and what they serve, and writes the condition.

Each APIService is checked every half minute, and at once when it, its service or the service's endpoints change. A
server gets one check at a time, with a timeout of a few seconds and a limit of a few megabytes for its response.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing, contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from kilauea.apiserver.aggregator.openapi import described
from kilauea.apiserver.aggregator.proxying import user_headers
from kilauea.apiserver.aggregator.services import PREFIX, Aggregator, Found, GroupVersion, RemoteService, Resources
from kilauea.apiserver.bootstrap import SELF, message_of, own_server
from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.dynamic.remote import CallError, service_of_slice, slices_of
from kilauea.apiserver.request import GROUP_MASTERS, ApiRequest, ApiResponse, User
from kilauea.apiserver.rest.objects import decode
from kilauea.apiserver.storage import Event
from kilauea.apiserver.streams.http_exchange import Answer, ExchangeError, exchange

log = logging.getLogger(__name__)
CHECKER = User("system:kube-aggregator", groups=(GROUP_MASTERS,))
"""The user of the checks; servers always respond to this group."""
CHECK_SECONDS = 5.0
"""Timeout of each request in seconds."""
AGAIN_SECONDS, SOON_SECONDS = 30.0, 0.5
"""Seconds from one check to the next, and after the first failure; doubled after each further one."""
GATHER_SECONDS = 0.1
"""Seconds for which changes are collected."""
AT_A_TIME, SLOW_AT_A_TIME = 8, 4
"""Concurrent checks of servers, and those of servers that were slow the last time."""
SLOW_SECONDS = 1.0
"""Seconds of a check from which a server counts as slow."""
LARGEST_DISCOVERY, LARGEST_DESCRIPTION = 2 * 1024 * 1024, 8 * 1024 * 1024
"""Maximum bytes of a response."""
MOST_KINDS = 2000
_SLICES = "/discovery.k8s.io/endpointslices/"
_WATCHED = ("/core/services/", "/core/endpoints/", _SLICES)
_MERGE = {"content-type": "application/merge-patch+json", "user-agent": "kube-apiserver/kilauea"}


class Verdict(NamedTuple):
    """The condition Available."""

    status: str
    reason: str
    message: str


PASSED = Verdict("True", "Passed", "all checks passed")


class _Kind(msgspec.Struct, rename="camel"):
    """An entry of an APIResourceList: the fields in discovery, where clients reject all kinds if one is invalid."""

    name: str
    kind: str
    namespaced: bool
    verbs: list[str]
    group: str = ""
    version: str = ""
    singular_name: str = ""
    short_names: list[str] | None = None
    categories: list[str] | None = None


class _Kinds(msgspec.Struct):
    resources: list[_Kind]


@dataclass(slots=True)
class _Watched:
    """The state of the checks of a server.

    Attributes:
        specification: the last checked specification of the APIService.
        facts: everything that the last verdict depends on, except the server.
        is_changed: True if any of these may have changed since.
        due: the time of the next check, by the clock of the loop.
        failures: the number of consecutive failed checks.
        is_slow: True if the last check took long.
        task: the check in progress.
    """

    specification: object = None
    facts: object = None
    is_changed: bool = True
    due: float = 0.0
    failures: int = 0
    is_slow: bool = False
    task: asyncio.Task[None] | None = None


class Availability:
    """The checks of one server's APIServices.

    Args:
        api: the server.
        aggregator: its APIServices.
        again: the seconds from one check to the next.
    """

    def __init__(self, api: ApiServer, aggregator: Aggregator, again: float = AGAIN_SECONDS) -> None:
        self._again = again
        self._own = own_server(api)
        self._store = api.backend.store
        self._stamp = api.backend.timestamp
        self._aggregator = aggregator
        self._watched: dict[GroupVersion, _Watched] = {}
        self._concerned: set[tuple[str, str]] = set()
        """Namespace and name of the services that may have changed."""
        self._faults: dict[tuple[str, str, int], Verdict | None] = {}
        """Verdicts from the objects of a service and port, until one of them changes."""
        self._changed = asyncio.Event()
        self._turns, self._slow_turns = asyncio.Semaphore(AT_A_TIME), asyncio.Semaphore(SLOW_AT_A_TIME)

    async def run(self) -> None:
        """Check until cancelled."""
        loop = asyncio.get_running_loop()
        with self._listening():
            try:
                while True:
                    self._changed.clear()
                    self._look(loop.time())
                    await self._wait(loop.time())
            finally:
                tasks = [each.task for each in self._watched.values() if each.task is not None]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Listen for changes while there are services to check."""

        def heard(_: object) -> None:
            if self._aggregator.services or self._watched:
                self._changed.set()

        with ExitStack() as stack:
            stack.enter_context(self._store.listening(PREFIX, heard))
            for prefix in _WATCHED:
                stack.enter_context(self._store.listening(prefix, self._hear))
            yield

    def _hear(self, events: Sequence[Event]) -> None:
        """Record the services of APIServices that are affected by writes of services and endpoints."""
        for event in events:
            namespace, name = event.key.rsplit("/", 2)[1:]
            followed = self._aggregator.behind.get(namespace)
            if not followed:
                continue
            names = {name}
            if event.key.startswith(_SLICES):
                names = {service_of_slice(each.value) for each in (event.now, event.before) if each is not None}
            self._concerned |= {(namespace, each) for each in names & followed}
        if self._concerned:
            self._changed.set()

    async def _wait(self, now: float) -> None:
        """Wait for a change or for the next check that is due."""
        due = [each.due for each in self._watched.values() if each.task is None]
        seconds = max(0.0, min(due) - now) if due else None
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
            await asyncio.sleep(GATHER_SECONDS)
        except TimeoutError:
            pass

    def _look(self, now: float) -> None:
        """Start the checks that are due or whose facts may have changed."""
        services, concerned = self._aggregator.services, self._concerned
        self._concerned = set()
        asked = {(each.namespace, each.service, each.port) for each in services.values()}
        self._faults = {key: each for key, each in self._faults.items() if key in asked and key[:2] not in concerned}
        for key in [key for key in self._watched if key not in services]:
            gone = self._watched.pop(key)
            if gone.task is not None:
                gone.task.cancel()
        for key, service in services.items():
            watched = self._watched.setdefault(key, _Watched())
            if (service.namespace, service.service) in concerned or service.specification != watched.specification:
                watched.specification, watched.is_changed = service.specification, True
            if watched.task is None and (watched.is_changed or now >= watched.due):
                watched.task = asyncio.ensure_future(self._checked(service, watched))

    def _facts(self, service: RemoteService) -> object:
        """Return everything that a verdict depends on, except the server."""
        fault = self._fault(service)
        if fault is not None:
            return service.specification, fault
        try:
            return service.specification, self._aggregator.target(service)
        except CallError as error:
            return service.specification, str(error)

    async def _checked(self, service: RemoteService, watched: _Watched) -> None:
        """Check a service if due or its facts have changed, write the verdict, and schedule the next check."""
        loop = asyncio.get_running_loop()
        try:
            async with self._slow_turns if watched.is_slow else self._turns:
                watched.is_changed, facts = False, self._facts(service)
                if facts == watched.facts and loop.time() < watched.due:
                    return
                watched.facts, watched.due = facts, 0.0
                since = loop.time()
                try:
                    verdict, resources = await self.check(service)
                    await self._write(service.name, verdict)
                    watched.failures = 0 if verdict.status == "True" else watched.failures + 1
                    if resources is not None:
                        await self._describe(service, resources)
                finally:
                    watched.is_slow = loop.time() - since > SLOW_SECONDS
        except Exception:
            log.exception("APIService %s cannot be checked", service.name)
            watched.failures, watched.due = watched.failures + 1, 0.0
        finally:
            watched.due = watched.due or loop.time() + self._pause(watched.failures)
            watched.task = None
            self._changed.set()

    def _pause(self, failures: int) -> float:
        """Return the seconds until the next check, after this many failures."""
        return min(self._again, SOON_SECONDS * 2.0 ** (failures - 1)) if failures else self._again

    async def check(self, service: RemoteService) -> tuple[Verdict, Resources | None]:
        """Return the condition of a service, and the entries of its server's APIResourceList, if any."""
        fault = self._fault(service)
        if fault is not None:
            return fault, None
        path = service.path
        try:
            url = self._aggregator.target(service).url
        except CallError as error:
            return Verdict("False", "FailedDiscoveryCheck", str(error)), None
        try:
            code, body = await self._ask(service, path, LARGEST_DISCOVERY)
        except (CallError, ExchangeError, OSError) as error:
            message = f'failing or missing response from {url}{path}: Get "{url}{path}": {error}'
            return Verdict("False", "FailedDiscoveryCheck", message), None
        if not 200 <= code < 300:
            message = f"failing or missing response from {url}{path}: bad status from {url}{path}: {code}"
            return Verdict("False", "FailedDiscoveryCheck", message), None
        return PASSED, await asyncio.to_thread(_resources, body)

    def _fault(self, service: RemoteService) -> Verdict | None:
        """Return a verdict from objects alone; None if the server must be checked."""
        key = service.namespace, service.service, service.port
        if key not in self._faults:
            self._faults[key] = self._fault_of_objects(service)
        return self._faults[key]

    def _fault_of_objects(self, service: RemoteService) -> Verdict | None:
        """Return such a verdict with the messages of Kubernetes."""
        where = f'service/{service.service} in "{service.namespace}"'
        stored = self._store.get(f"/core/services/{service.namespace}/{service.service}")
        if stored is None:
            return Verdict("False", "ServiceNotFound", f"{where} is not present")
        spec = decode(stored.value).get("spec") or {}
        if (spec.get("type") or "ClusterIP") != "ClusterIP":
            return None
        port = next((each for each in spec.get("ports") or () if each.get("port") == service.port), None)
        if port is None:
            return Verdict("False", "ServicePortError", f"{where} is not listening on port {service.port}")
        name = port.get("name") or ""
        slices = slices_of(self._store, service.namespace, service.service)
        first = next(slices, None)
        endpoints = self._store.get(f"/core/endpoints/{service.namespace}/{service.service}")
        if first is None and endpoints is None:
            return Verdict("False", "EndpointsNotFound", f"cannot find endpointslices for {where}")
        pieces = chain([first] if first is not None else (), slices)
        if not any(_is_ready(piece, name) for piece in pieces) and not _has_address(endpoints, name):
            message = f'endpointslices for {where} have no addresses with port name "{name}"'
            return Verdict("False", "MissingEndpoints", message)
        return None

    async def _describe(self, service: RemoteService, resources: Resources) -> None:
        """Record the resources of a server, and their OpenAPI; both are kept while it is unavailable."""
        known, path = self._aggregator.found.get(service.key, Found())._replace(resources=resources), service.path
        self._aggregator.note(service.key, known)
        v3 = await self._description(service, f"/openapi/v3{path}")
        v2 = await self._description(service, "/openapi/v2")
        older = await asyncio.to_thread(described, v2, path) if v2 else None
        found = Found(resources, known.v3 if v3 is None else v3, known.v2 if v2 is None else older)
        self._aggregator.note(service.key, found)

    async def _description(self, service: RemoteService, where: str) -> bytes | None:
        """Return the OpenAPI document at a path; empty if the server has none, None if that is unknown."""
        try:
            code, body = await self._ask(service, where, LARGEST_DESCRIPTION)
        except (CallError, ExchangeError, OSError):
            return None
        return body if code == 200 else b""

    async def _ask(self, service: RemoteService, path: str, largest: int) -> tuple[int, bytes]:
        """Return code and body of a response.

        Raises:
            CallError: the request timed out, or the response is too large.
            ExchangeError: the response is not HTTP.
            OSError: the connection was lost.
        """
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                target = self._aggregator.target(service)
                connection = await self._aggregator.connect(service, target)
                try:
                    headers = [("host", f"{target.name}:{service.port}"), ("accept", "application/json")]
                    answer = await exchange(connection, "GET", path, [*headers, *user_headers(CHECKER)], b"")
                    if not isinstance(answer, Answer):
                        raise CallError("unexpected upgrade")
                    return answer.status, await _limited(answer, largest)
                finally:
                    await connection.close()
        except TimeoutError as error:
            raise CallError("context deadline exceeded") from error

    async def _write(self, name: str, verdict: Verdict) -> None:
        """Write the condition, unless it is already set."""
        stored = self._store.get(f"{PREFIX}{name}")
        if stored is None:
            return
        conditions = (decode(stored.value).get("status") or {}).get("conditions") or []
        before: Mapping[str, Any] = next((each for each in conditions if each["type"] == "Available"), {})
        if tuple(before.get(each) for each in Verdict._fields) == verdict:
            return
        since = before["lastTransitionTime"] if before.get("status") == verdict.status else self._stamp()
        written = {"type": "Available", "lastTransitionTime": since, **verdict._asdict()}
        others = [each for each in conditions if each["type"] != "Available"]
        body = msgspec.json.encode({"status": {"conditions": [*others, written]}})
        path = f"/apis/apiregistration.k8s.io/v1/apiservices/{name}/status"
        answer = await self._own.handle(ApiRequest("PATCH", path, headers=_MERGE, body=body, user=SELF))
        if not isinstance(answer, ApiResponse) or answer.status not in (200, 404):
            log.warning("the status of APIService %s cannot be written: %s", name, message_of(answer))


def _is_ready(piece: Mapping[str, Any], name: str) -> bool:
    """Return True if a slice has a ready endpoint and a port of this name."""
    ready = any((each.get("conditions") or {}).get("ready") is not False for each in piece.get("endpoints") or ())
    return ready and any((each.get("name") or "") == name and each.get("port") for each in piece.get("ports") or ())


def _has_address(stored: Any, name: str) -> bool:
    """Return True if Endpoints exist and have an address and a port of this name."""
    subsets = (decode(stored.value).get("subsets") or ()) if stored is not None else ()
    return any(
        each.get("addresses") and any((port.get("name") or "") == name for port in each.get("ports") or ())
        for each in subsets
    )


async def _limited(answer: Answer, largest: int) -> bytes:
    """Return a body; raises CallError if it is too large."""
    received = bytearray()  # parts may be a few bytes each
    async with aclosing(answer.body) as body:
        async for part in body:
            received += part
            if len(received) > largest:
                raise CallError(f"the answer is larger than {largest} bytes")
    return bytes(received)


def _resources(body: bytes) -> Resources | None:
    """Return the entries of an APIResourceList; None if the body is not one."""
    try:
        msgspec.json.decode(body, type=_Kinds)
        entries = msgspec.json.decode(body)["resources"]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return tuple(entries) if len(entries) <= MOST_KINDS else None
