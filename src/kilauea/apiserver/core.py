"""The API server without a transport: it maps a request to a response or a watch.

It parses the path and passes the call to the verb; every error becomes a `metav1.Status`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping

from prometheus_client import REGISTRY

from kilauea.api.names import path_segment_problems
from kilauea.api.ports import Resource
from kilauea.api.times import parse_duration
from kilauea.apiserver import status
from kilauea.apiserver.access import REVIEWS
from kilauea.apiserver.aggregator.proxying import proxy_to_service
from kilauea.apiserver.aggregator.services import Aggregator
from kilauea.apiserver.backend import Backend
from kilauea.apiserver.deferred import KNOWN, MOST_DEFERRED, Deferred
from kilauea.apiserver.documents.documents import Documents
from kilauea.apiserver.flow_control.classes import FlowControl, FlowMetrics
from kilauea.apiserver.heavy import TooHeavy, TooManyWaiting
from kilauea.apiserver.heavy_tasks import write_protobuf, write_yaml
from kilauea.apiserver.large_writes import LARGE
from kilauea.apiserver.protobuf import PROTOBUF
from kilauea.apiserver.rbac.authorizer import action_of
from kilauea.apiserver.rbac.impersonation import acting_user
from kilauea.apiserver.request import (
    ANONYMOUS,
    GROUP_MASTERS,
    YAML,
    ApiRequest,
    ApiResponse,
    RequestInfo,
    TextStream,
    Tunnel,
    Upgrade,
    WatchStream,
    parse_path,
)
from kilauea.apiserver.request_metrics import RequestMetrics
from kilauea.apiserver.resources.types import ResourceType
from kilauea.apiserver.rest.answers import view_of
from kilauea.apiserver.rest.binding import bind
from kilauea.apiserver.rest.body import media_type
from kilauea.apiserver.rest.call import Call
from kilauea.apiserver.rest.components import COMPONENTS, components
from kilauea.apiserver.rest.create import create
from kilauea.apiserver.rest.deleting import delete, delete_collection
from kilauea.apiserver.rest.eviction import evict
from kilauea.apiserver.rest.extent import too_deep
from kilauea.apiserver.rest.finalize import finalize
from kilauea.apiserver.rest.get import get
from kilauea.apiserver.rest.history import HISTORY, history
from kilauea.apiserver.rest.listing import list_objects
from kilauea.apiserver.rest.logs import read_log
from kilauea.apiserver.rest.metrics import METRICS, metrics
from kilauea.apiserver.rest.patching import patch
from kilauea.apiserver.rest.proxying import proxy
from kilauea.apiserver.rest.reading_ahead import LIGHT, read_ahead
from kilauea.apiserver.rest.scale import get_scale, patch_scale, update_scale
from kilauea.apiserver.rest.streams import attach, exec_command, forward_ports
from kilauea.apiserver.rest.token import create_token
from kilauea.apiserver.rest.update import update
from kilauea.apiserver.rest.watching import watch
from kilauea.apiserver.seats import Flow
from kilauea.apiserver.selection import parse_fields
from kilauea.apiserver.status import ApiFault
from kilauea.apiserver.storage import StorageError
from kilauea.apiserver.turns import CALLER, LoopTurns
from kilauea.apiserver.warning_headers import warning_headers

log = logging.getLogger(__name__)

Answer = ApiResponse | WatchStream | TextStream | Upgrade | Tunnel
Verb = Callable[[Call], Awaitable[Answer]]

VERBS: Mapping[str, Verb] = {
    "get": get,
    "list": list_objects,
    "watch": watch,
    "create": create,
    "update": update,
    "patch": patch,
    "delete": delete,
    "deletecollection": delete_collection,
}
_IN_PIECES = frozenset((create, update, patch, delete, *REVIEWS.values()))
"""Verbs whose work on large objects is done outside the event loop."""
PARTS: Mapping[str, Verb] = {"get": get, "update": update, "patch": patch}
"""Subresources that are a part of their object."""
SUBRESOURCES: Mapping[str, Mapping[str, Verb]] = {
    "status": PARTS,
    "approval": PARTS,
    "resize": PARTS,
    "ephemeralcontainers": PARTS,
    "scale": {"get": get_scale, "update": update_scale, "patch": patch_scale},
    "binding": {"create": bind},
    "eviction": {"create": evict},
    "finalize": {"update": finalize},
    "log": {"get": read_log},
    "token": {"create": create_token},
    "exec": {"get": exec_command, "create": exec_command},
    "attach": {"get": attach, "create": attach},
    "proxy": dict.fromkeys(("get", "create", "update", "patch", "delete"), proxy),
    "portforward": {"get": forward_ports, "create": forward_ports},
}
UNSTORED: Mapping[tuple[str, str], Verb] = {
    ("", "bindings"): bind,
    **REVIEWS,
    **{(each.group, each.plural): metrics for each in METRICS},
    **{(each.group, each.plural): history for each in HISTORY},
    (COMPONENTS.group, COMPONENTS.plural): components,
}
"""Kinds that are answered but not stored, by group and plural."""

_OF_OBJECTS = ("get", "update", "patch", "delete")
_OF_ALL_NAMESPACES = frozenset(("list", "watch"))
"""Verbs for objects of all namespaces at once."""
PUBLIC = frozenset({"/healthz", "/livez", "/readyz", "/version", "/version/"})
"""Paths that can be read without authentication, as with the default rules of the real server."""


class ApiServer:
    """The API of one cluster."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        backend.registry.add(COMPONENTS)
        self.metrics = RequestMetrics(backend.registry, backend.store)
        self.documents = Documents(backend, metrics=[REGISTRY, self.metrics.registry])
        self._authorizer = backend.authorizer
        self._flows = FlowControl(backend.store)
        self.metrics.registry.register(FlowMetrics(self._flows))
        self._turns = LoopTurns()
        self._aggregator: Aggregator | None = None

    def aggregate(self, aggregator: Aggregator) -> None:
        """Start to proxy requests to the aggregated API servers, and to show their kinds."""
        self._aggregator = self.documents.aggregator = aggregator

    def aggregated_kinds(self) -> tuple[list[Resource], list[str]]:
        """Return kinds of other servers whose collections can be deleted, and versions whose server is unavailable."""
        return self._aggregator.kinds() if self._aggregator is not None else ([], [])

    async def handle(self, request: ApiRequest) -> Answer:
        """Answer a request; raises only on cancellation."""
        start, code = time.perf_counter(), 0
        self.metrics.begin(request.method)
        try:
            answer = await self._answer(request)
            if isinstance(answer, ApiResponse):
                if answer.content_type in (YAML, PROTOBUF):
                    answer = await self._in_media(answer)
                code = answer.status
            else:
                code = 101 if isinstance(answer, Upgrade | Tunnel) else 200
            return answer
        except asyncio.CancelledError:  # the request has timed out
            code = status.TIMEOUT
            raise
        finally:
            self.metrics.end(request.method, request.info, code, time.perf_counter() - start)

    def flow_of(self, request: ApiRequest) -> Flow | None:
        """Return the flow of an answered request; None without one."""
        user = request.user
        if user is not None and GROUP_MASTERS in user.groups:
            return self._flows.flow_of(user, request.method, request.path, request.info)
        return request.flow

    async def _in_media(self, answer: ApiResponse) -> ApiResponse:
        """Return a response in YAML or protobuf, if requested."""
        try:
            answer.body = await self._written(answer.body, answer.content_type)
        except TooHeavy as fault:
            return fault_response(status.too_many_requests(str(fault), (), 1))
        return answer

    async def _written(self, body: bytes | Iterable[bytes], media: str) -> bytes:
        """Convert JSON to YAML or protobuf, in a worker if it is large."""
        whole = body if isinstance(body, bytes) else await _joined(body)
        if len(whole) > LIGHT:
            return await self.backend.heavy.run("write yaml" if media == YAML else "write protobuf", whole)
        return write_yaml(whole) if media == YAML else write_protobuf(whole)

    async def _answer(self, request: ApiRequest) -> Answer:
        try:
            watches = bool(request.query) and request.flag("watch") is True
            info = request.info = parse_path(request.method, request.path, watches)
            if request.query:
                _check_timeout(request, info)
            if request.user is not None:
                request.user = acting_user(request.user, request.headers, self._authorizer)
                CALLER.set(request.user.tenant)
            elif request.path not in PUBLIC:
                raise status.unauthorized()
            if request.incoming is not None:
                await self._check(request, info)
                request.body = await request.incoming()
            if self._aggregator is not None and self._aggregator.services and request.user is not None:
                service = self._aggregator.of_path(request.path)
                if service is not None:  # without a seat, which a server that never responds would keep
                    await self._check(request, info)
                    return await proxy_to_service(self._aggregator, service, request, request.user)
            if request.user is not None and GROUP_MASTERS in request.user.groups:
                return await self._answer_now(request, info)  # exempt by a FlowSchema that never changes
            flow = request.flow = self._flows.flow_of(request.user or ANONYMOUS, request.method, request.path, info)
            if flow is None or flow.seats is None:
                return await self._answer_now(request, info)
            tenant = (request.user or ANONYMOUS).tenant
            await flow.seats.take(flow.name, tenant)
            try:
                return await self._answer_now(request, info)
            finally:
                flow.seats.give(tenant)
        except ApiFault as fault:
            return _in_form(request, fault_response(fault))
        except TooHeavy as fault:
            return fault_response(status.too_many_requests(str(fault), (), 1))
        except RecursionError:
            return _in_form(request, fault_response(too_deep()))
        except StorageError as error:
            return fault_response(status.internal(str(error)))
        except Exception as error:
            log.exception("%s %s", request.method, request.path)
            return fault_response(status.internal(f"{type(error).__name__}: {error}"))

    async def _answer_now(self, request: ApiRequest, info: RequestInfo | None) -> Answer:
        """Answer a request in its turn."""
        await self._check(request, info)
        is_passed_on = info is not None and info.subresource == "proxy"
        if (len(request.body) > LIGHT or b"&" in request.body) and not is_passed_on:
            # Aliases of YAML expand small bodies to large objects.
            await read_ahead(request, self.backend.heavy, self.backend.large_writes)
        return await self._route(request, info)

    async def _check(self, request: ApiRequest, info: RequestInfo | None) -> None:
        """Reject a caller without permission for a request (403)."""
        user = request.user
        if user is not None and GROUP_MASTERS not in user.groups:
            if info is not None and self._authorizer.takes_long(info.namespace) and not request.is_ours:
                await self.backend.reading_turns.pause(user.tenant)
            action = action_of(request.method, request.path, info)
            if action.verb in ("list", "watch") and not action.name and request.query:
                action = action._replace(name=_selected_name(request))
            self._authorizer.check(user, action)

    async def _route(self, request: ApiRequest, info: RequestInfo | None) -> Answer:
        """Return the call for a path."""
        if info is None:
            return await self.documents.answer(request) or self._nothing_at(request.path)
        call = self._call(request, info)
        if call is None:
            return self._nothing_at(request.path)
        verb = _verb_of(call)
        is_head = request.method == "HEAD" and not call.resource.is_custom and info.subresource != "proxy"
        if verb is None and call.resource.is_custom:
            raise _refusal_of_custom(info)
        if verb is None or is_head:
            raise status.wrong_method()
        if info.subresource != "proxy":
            view_of(call)  # reject impossible response formats before anything is done
        if _size(call) > LARGE:
            await self._take_turn(call, verb)
        try:
            answer = await verb(call)
        except ApiFault as fault:
            answer = _in_form(request, fault_response(fault))
        except Deferred as heavy:
            answer, call = await self._again(call, verb, heavy)
        finally:
            call.end_turn()
        if call.resource.strategy.deprecated:
            call.warnings.insert(0, call.resource.strategy.deprecated)
        if call.warnings:
            answer.headers += warning_headers(call.warnings)
        return answer

    async def _take_turn(self, call: Call, verb: Verb) -> None:
        """Let a large write wait for its turn: in the loop, or with each piece of its work in the other thread."""
        writes = self.backend.large_writes
        if writes is not None and verb in _IN_PIECES:
            call.turn = writes.turn(call.user.tenant)
        else:
            await self._turns.take(call.user.tenant)

    async def _again(self, call: Call, verb: Verb, heavy: Deferred) -> tuple[Answer, Call]:
        """Repeat a request until all of its heavy work is done."""
        known: dict[bytes, bytes] = {}
        token = KNOWN.set(known)
        try:
            while len(known) < MOST_DEFERRED:
                call.end_turn()
                try:
                    known[heavy.question] = await self.backend.heavy.run(heavy.task, heavy.question)
                except TooManyWaiting:
                    raise  # this is not about the object: the client can retry
                except TooHeavy:
                    known[heavy.question] = b""
                call = dataclasses.replace(call, warnings=[])
                if call.turn is None:
                    await self._turns.take(call.user.tenant)
                try:
                    return await verb(call), call
                except Deferred as more:
                    heavy = more
                except ApiFault as fault:
                    return _in_form(call.request, fault_response(fault)), call
            raise TooHeavy(f"more than {MOST_DEFERRED} validation rules of the object take long to evaluate")
        finally:
            KNOWN.reset(token)

    def _call(self, request: ApiRequest, info: RequestInfo) -> Call | None:
        """Return a request with its kind; None if the path does not serve one."""
        resource = self.backend.registry.find(info.group, info.version, info.resource)
        if resource is None or not _has_path(resource, info):
            return None
        subresource = resource.subresource(info.subresource) if info.subresource else None
        if info.subresource and subresource is None:
            if resource.is_custom:
                raise status.not_found(resource.plural, resource.group, info.name)
            return None
        return Call(self.backend, request, info, resource, subresource)

    def _nothing_at(self, path: str) -> ApiResponse:
        """Return the response for an unknown path: a `Status` below groups of this server itself, else text."""
        parts = path.split("/")
        group = parts[2] if parts[1:2] == ["apis"] and len(parts) > 3 else ""
        known = path.startswith("/api/") or (group and self.backend.registry.has_built_in(group))
        return fault_response(status.no_such_resource()) if known else no_such_path()


def _has_path(resource: ResourceType, info: RequestInfo) -> bool:
    """Return True if a kind is served at a path, with any method."""
    if not resource.namespaced:
        if info.in_namespace:
            return False
    elif not info.namespace:  # objects of all namespaces
        if info.name or "list" not in resource.verbs:
            return False
        return not resource.is_custom or info.verb in _OF_ALL_NAMESPACES
    verbs = _OF_OBJECTS if info.name and not info.subresource else resource.verbs
    return resource.is_custom or any(each in resource.verbs for each in verbs)


def _selected_name(request: ApiRequest) -> str:
    """Return the only name that a list or watch selects, for permissions by name; empty for others."""
    try:
        terms = parse_fields(request.first("fieldSelector"))
    except ApiFault:  # the request is rejected
        return ""
    names = [each.value for each in terms if each.path == "metadata.name" and each.equal]
    return names[0] if len(names) == 1 and not path_segment_problems(names[0]) else ""


async def _joined(pieces: Iterable[bytes]) -> bytes:
    """Return all pieces of a response. Each is created on demand, and other tasks run between them."""
    found = []
    for piece in pieces:
        found.append(piece)
        await asyncio.sleep(0)
    return b"".join(found)


def _check_timeout(request: ApiRequest, info: RequestInfo | None) -> None:
    """Reject a request whose `timeout` is not a duration; watches and logs do not time out."""
    text = request.first("timeout")
    if text and (info is None or (info.verb != "watch" and info.subresource not in ("log", "proxy"))):
        try:
            parse_duration(text)
        except ValueError:
            message = f'invalid timeout specified in the request URL - time: invalid duration "{text}"'
            raise status.bad_request(message) from None


def _refusal_of_custom(info: RequestInfo) -> ApiFault:
    """Return the error for a method that a custom resource does not support."""
    if info.verb in ("update", "patch") and not info.name:
        return status.bad_request("name must be provided")
    return status.no_such_verb(info.verb, info.group, info.resource)


def _verb_of(call: Call) -> Verb | None:
    """Return the verb of a call; None if there is no such verb."""
    verb, resource, info = call.info.verb, call.resource, call.info
    if call.subresource is not None:
        return SUBRESOURCES[call.subresource.name].get(verb) if verb in call.subresource.verbs else None
    if verb not in resource.verbs or (verb == "create" and info.name and not resource.is_custom):
        return None
    if verb in ("update", "patch") and not info.name:
        return None
    if resource.namespaced and not info.namespace and verb not in _OF_ALL_NAMESPACES:
        return None
    return UNSTORED.get((resource.group, resource.plural)) or VERBS.get(verb)


def _size(call: Call) -> int:
    """Return the bytes of a write: its body and the object that it changes. Lists and watches handle their size."""
    info = call.info
    if info.verb in ("get", "list", "watch") or info.subresource == "proxy":
        return 0
    stored = call.backend.store.get(call.key) if info.name else None
    return len(call.request.body) + (stored.length if stored is not None else 0)


def fault_response(fault: ApiFault) -> ApiResponse:
    """Return the response for an error."""
    headers = [("Retry-After", str(fault.retry_after))] if fault.retry_after else []
    return ApiResponse(fault.code, fault.encode(), headers=headers)


def _in_form(request: ApiRequest, response: ApiResponse) -> ApiResponse:
    """Return an error in YAML or protobuf, if only that is accepted."""
    media = media_type(request.headers.get("accept", ""))
    if media in (YAML, PROTOBUF):
        response.content_type = media
    return response


def no_such_path() -> ApiResponse:
    """Return the response for an unknown path; plain text, as from the real server."""
    return ApiResponse(404, b"404 page not found\n", "text/plain; charset=utf-8")
