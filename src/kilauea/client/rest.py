"""`Client`: the verbs of the API over any transport. It implements `kilauea.api.ports.Api`.

listed = await client.list(PODS, labels="app=web")
async for batch in client.watch(PODS, listed.version):
    ...
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from random import Random
from typing import Any, Literal
from urllib.parse import quote, urlencode

import msgspec

from kilauea.api.kinds import PODS
from kilauea.api.ports import ApiError, Key, Listed, Obj, PatchType, Propagation, Resource, Seen
from kilauea.client.transport import Answer, Transport, refusal, refusal_of, warnings_of

PAGE = 500
"""Objects per page of a list."""
TOGETHER = 50
"""Objects of a list to read before other tasks can run."""
SHORTEST_WATCH = 300
"""Minimum seconds of a watch; up to twice as long, so that not all watches restart at once."""

_JSON = "application/json"
_PATCHES: Mapping[PatchType, str] = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Head(msgspec.Struct):
    """The fields that the client reads of an object that it returns as bytes."""

    metadata: _Metadata
    kind: str = ""


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


class _Frame(msgspec.Struct):
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw


_encode = msgspec.json.Encoder().encode
_is_plain = re.compile(r"[a-z0-9.-]*").fullmatch
_head_of = msgspec.json.Decoder(_Head).decode
_page_of = msgspec.json.Decoder(_Page).decode
_frames_of = msgspec.json.Decoder(_Frame).decode_lines
_object_of = msgspec.json.Decoder(dict[str, Any]).decode


class Client:
    """A client of an API server over a transport.

    Args:
        transport: the connection; closed by its owner.
        agent: the name of this component for the server, for example as the manager of fields.
        rng: decides how long each watch lasts.
        page: objects per page of lists; 0 for all at once.
        warned: called with each warning of a response.
    """

    def __init__(
        self,
        transport: Transport,
        agent: str = "kilauea",
        rng: Random | None = None,
        page: int = PAGE,
        warned: Callable[[str], None] | None = None,
    ) -> None:
        self._transport = transport
        self._rng = rng or Random(0)
        self._page = page
        self._warned = warned
        self._headers = {"accept": _JSON, "user-agent": agent}
        self._with_body = {**self._headers, "content-type": _JSON}

    async def get(self, resource: Resource, key: Key, subresource: str = "") -> dict[str, Any]:
        """Return one object."""
        return _decoded(await self._ask("GET", _object_path(resource, key, subresource)))

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        reduce: Callable[[bytes], bytes] | None = None,
    ) -> Listed:
        """Return all objects of a kind at one version; each has its `kind` and `apiVersion`, or is reduced.

        If the pages of a list have expired, it starts over, in one piece.
        """
        selection = _selection(labels, fields)
        try:
            return await self._list(resource, namespace, selection, self._page, reduce)
        except ApiError as error:
            if error.code != 410 or not self._page:
                raise
        return await self._list(resource, namespace, selection, 0, reduce)

    async def check_list(self, resource: Resource) -> None:
        """Raise the error that listing a kind would raise; reads at most one object."""
        await self._ask("GET", _target(collection_path(resource, ""), {"limit": 1}))

    async def log(self, pod: Key, lines: int, size: int) -> bytes:
        """Return the last lines of the log of a pod's first container, limited in bytes."""
        target = _target(_object_path(PODS, pod, "log"), {"tailLines": lines, "limitBytes": size})
        return (await self._ask("GET", target)).body

    async def read(self, resource: Resource, namespace: str, name: str, query: Mapping[str, str]) -> bytes:
        """Return the response to a request with parameters, such as a report.

        Args:
            resource: the kind.
            namespace: the namespace; empty for all.
            name: the name of one object; empty for all.
            query: the parameters.
        """
        path = _object_path(resource, Key(namespace, name)) if name else collection_path(resource, namespace)
        return (await self._ask("GET", _target(path, query))).body

    async def _list(
        self,
        resource: Resource,
        namespace: str,
        selection: Mapping[str, str],
        limit: int,
        reduce: Callable[[bytes], bytes] | None,
    ) -> Listed:
        path = collection_path(resource, namespace)
        query: dict[str, str | int] = {**selection, **({"limit": limit} if limit else {})}
        items: list[bytes] = []
        following: asyncio.Task[Answer] | None = None
        answer = await self._ask("GET", _target(path, query))
        try:
            while True:
                page = _page_of(answer.body)
                query["continue"] = page.metadata.continue_
                if page.metadata.continue_:  # the server prepares the next page while this one is read
                    following = asyncio.create_task(self._ask("GET", _target(path, query)))
                for number, raw in enumerate(page.items or ()):
                    if number % TOGETHER == 0:
                        await asyncio.sleep(0)
                    whole = _whole(raw, resource)
                    items.append(reduce(whole) if reduce is not None else whole)
                if following is None:
                    return Listed(items, page.metadata.resource_version)
                answer = await following
                following = None
        finally:
            if following is not None:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)

    async def watch(
        self, resource: Resource, version: str, namespace: str = "", labels: str = "", fields: str = ""
    ) -> AsyncIterator[Sequence[Seen]]:
        """Yield the events after a version, in batches, with bookmarks, until the server ends the watch."""
        seconds = int(SHORTEST_WATCH * (1 + self._rng.random()))
        options = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": seconds}
        query = {**options, "resourceVersion": version, **_selection(labels, fields)}
        target = _target(collection_path(resource, namespace), query)
        async with aclosing(self._transport.stream(target, self._headers)) as pieces:
            async for piece in pieces:
                yield [_seen(frame) for frame in _frames_of(piece)]

    async def create(
        self, resource: Resource, namespace: str, body: Obj, subresource: str = "", name: str = ""
    ) -> dict[str, Any]:
        """Create an object, or a subresource of the named one."""
        if subresource:
            path = _object_path(resource, Key(namespace, name), subresource)
        else:
            path = collection_path(resource, namespace)
        return _decoded(await self._ask("POST", path, self._with_body, _encode(body)))

    async def update(self, resource: Resource, body: Obj, subresource: str = "") -> dict[str, Any]:
        """Replace an object, at the version that the body has if any."""
        metadata = body["metadata"]
        path = _object_path(resource, Key(metadata.get("namespace", ""), metadata["name"]), subresource)
        return _decoded(await self._ask("PUT", path, self._with_body, _encode(body)))

    async def patch(
        self,
        resource: Resource,
        key: Key,
        patch: Any,
        type: PatchType = "merge",
        subresource: str = "",
        manager: str = "",
        force: bool = False,
    ) -> bytes:
        """Change an object; `manager` is needed for apply, and only apply knows `force`."""
        query = {**({"fieldManager": manager} if manager else {}), **({"force": "true"} if force else {})}
        target = _target(_object_path(resource, key, subresource), query)
        headers = {**self._headers, "content-type": _PATCHES[type]}
        return (await self._ask("PATCH", target, headers, _encode(patch))).body

    async def delete(
        self,
        resource: Resource,
        key: Key,
        *,
        uid: str = "",
        grace: int | None = None,
        propagation: Propagation = "Background",
    ) -> None:
        """Delete an object if it still has this UID; another UID is a Conflict."""
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        await self._ask("DELETE", _object_path(resource, key), self._with_body, _encode(options))

    async def delete_all(self, resource: Resource, namespace: str = "") -> bool:
        """Delete all objects of a kind, in all namespaces unless one is named; return True if none are left.

        Servers delete collections in one namespace only, so for all namespaces, objects are deleted one by one.
        """
        if not await self._any(resource, namespace):
            return True
        if namespace or not resource.namespaced:
            await self._ask("DELETE", collection_path(resource, namespace))
        else:
            for number, item in enumerate((await self.list(resource)).items, 1):
                if number % TOGETHER == 0:  # terminating objects do not need a request
                    await asyncio.sleep(0)
                metadata = _object_of(item)["metadata"]
                if "deletionTimestamp" not in metadata:
                    await self._delete_if_there(resource, Key(metadata["namespace"], metadata["name"]))
        return not await self._any(resource, namespace)

    async def _any(self, resource: Resource, namespace: str) -> bool:
        """Return True if any object of a kind exists."""
        target = _target(collection_path(resource, namespace), {"limit": 1})
        return bool(_page_of((await self._ask("GET", target)).body).items)

    async def _delete_if_there(self, resource: Resource, key: Key) -> None:
        """Delete an object; a missing one is not an error."""
        try:
            await self.delete(resource, key)
        except ApiError as error:
            if error.code != 404:
                raise

    async def _ask(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Answer:
        """Return the response to a request, or raise its error."""
        answer = await self._transport.request(method, target, headers or self._headers, body)
        if answer.status >= 300:
            raise refusal(answer)
        if self._warned is not None:
            for warning in warnings_of(answer):
                self._warned(warning)
        return answer


def version_of(content: bytes) -> str:
    """Return the version of an object; empty if missing."""
    return _head_of(content).metadata.resource_version


def collection_path(resource: Resource, namespace: str = "") -> str:
    """Return the path of the objects of a kind, in a namespace or in all."""
    base = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    within = f"/namespaces/{_quoted(namespace)}" if namespace and resource.namespaced else ""
    return f"{base}{within}/{resource.plural}"


def _quoted(name: str) -> str:
    """Return a name as quoted in a path; nearly all names stay unchanged."""
    return name if _is_plain(name) else quote(name, safe="")


def _object_path(resource: Resource, key: Key, subresource: str = "") -> str:
    """Return the path of an object or a subresource."""
    path = f"{collection_path(resource, key.namespace)}/{_quoted(key.name)}"
    return f"{path}/{subresource}" if subresource else path


def _target(path: str, query: Mapping[str, Any]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _selection(labels: str, fields: str) -> dict[str, str]:
    """Return selectors as query parameters."""
    return {**({"labelSelector": labels} if labels else {}), **({"fieldSelector": fields} if fields else {})}


def _decoded(answer: Answer) -> dict[str, Any]:
    return _object_of(answer.body)


def _whole(raw: msgspec.Raw, resource: Resource) -> bytes:
    """Return an item of a list as a watch returns it: servers omit the kind in lists of built-in kinds."""
    item = bytes(raw)
    if _head_of(item).kind:
        return item
    return b'{"kind":%b,"apiVersion":%b,%b' % (_encode(resource.kind), _encode(resource.api_version), item[1:])


def _seen(frame: _Frame) -> Seen:
    """Return a frame as an event.

    Raises:
        ApiError: the frame is the error that ends the watch.
    """
    content = bytes(frame.object)
    if frame.type == "ERROR":
        raise refusal_of(_object_of(content))
    return Seen(frame.type, content, version_of(content))
