"""Requests and responses without a transport, and the parsing of request paths.

HTTP is one source of requests (`kilauea.apiserver.http`); components in the same process create an `ApiRequest` and
pass it to `ApiServer.handle`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol
from urllib.parse import parse_qsl, unquote

from kilauea.api.container_streams import Connection
from kilauea.apiserver.parsing import Parsed
from kilauea.apiserver.seats import Flow
from kilauea.apiserver.storage.records import Stored

JSON = "application/json"
YAML = "application/yaml"
GROUP_AUTHENTICATED = "system:authenticated"
GROUP_MASTERS = "system:masters"
_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class User:
    """The caller, as authenticated."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def tenant(self) -> str:
        """The unit that shares a limit: the user, or all service accounts of a namespace."""
        if self.name.startswith(_ACCOUNT):
            return self.name[: self.name.find(":", len(_ACCOUNT))]
        return self.name


ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))


@dataclass(slots=True)
class ApiRequest:
    """One request: `path` decoded, without query; names of headers in lower case; `user` None without credentials.

    A body that is not complete yet is read with `incoming`, after the caller is authorized. A large body is already
    parsed: `parsed`. `suffixes` were generated for its name: a repeated request (`deferred.py`) tries the same names.
    `info` is the meaning of the path, once the server has read it, and `flow` the priority level that serves it (none
    for masters, which are exempt). `is_ours` is true of requests of this process, whose bodies were encoded here and so
    do not have duplicate keys, and whose lists and watches take no turns.
    """

    method: str
    path: str
    query: list[tuple[str, str]] = field(default_factory=list)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    user: User | None = None
    parsed: Parsed | None = None
    suffixes: list[str] = field(default_factory=list)
    info: RequestInfo | None = None
    flow: Flow | None = None
    incoming: Callable[[], Awaitable[bytes]] | None = None
    is_ours: bool = False

    def first(self, name: str, default: str = "") -> str:
        """Return the first value of a query parameter."""
        for key, value in self.query:
            if key == name:
                return value
        return default

    def flag(self, name: str) -> bool | None:
        """Return the first value of a boolean parameter; None if it is absent.

        As in Kubernetes, everything except `false` and `0` is true, including the empty value.
        """
        for key, value in self.query:
            if key == name:
                return value.lower() not in ("false", "0")
        return None


class Listing(NamedTuple):
    """The records of the objects in a list, and their revision of the store."""

    items: Sequence[Stored]
    revision: int


@dataclass(slots=True)
class ApiResponse:
    """A complete response; a large body is an iterable of chunks, created while it is sent.

    A response without a body has no content type. `listing` has the records of a list, if all of it is in the stored
    form.
    """

    status: int
    body: bytes | Iterable[bytes] = b""
    content_type: str = JSON
    headers: list[tuple[str, str]] = field(default_factory=list)
    listing: Listing | None = None


class Frame(NamedTuple):
    """One event of a watch: an object in the requested form, at a revision of the store.

    `stored` is the record of the object, if it is in the stored form.
    """

    kind: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: bytes
    revision: int
    stored: Stored | None = None


def _json_line(frame: Frame) -> bytes:
    """Encode a frame as JSON."""
    return b'{"type":"%b","object":%b}\n' % (frame.kind.encode(), frame.object)


@dataclass(slots=True)
class WatchStream:
    """An endless response: batches of frames, until the iterator ends or is closed."""

    batches: AsyncGenerator[Sequence[Frame], None]
    content_type: str = JSON
    headers: list[tuple[str, str]] = field(default_factory=list)
    line: Callable[[Frame], bytes] = _json_line

    @property
    def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the batches as HTTP sends them, with each frame formatted by `line`; closing it ends them."""
        return _lines(self.batches, self.line)


async def _lines(
    batches: AsyncGenerator[Sequence[Frame], None], line: Callable[[Frame], bytes]
) -> AsyncGenerator[bytes, None]:
    async with aclosing(batches):
        async for batch in batches:
            lines = [b"".join(map(line, batch))]
            del batch  # while a client reads nothing, only the lines are kept, and between two events nothing
            yield lines.pop()


@dataclass(slots=True)
class TextStream:
    """A response that is sent as it is generated, until the generator ends or is closed."""

    chunks: AsyncGenerator[bytes, None]
    content_type: str
    headers: list[tuple[str, str]] = field(default_factory=list)
    status: int = 200


class Socket(Protocol):
    """The server's end of a WebSocket. All calls raise `ConnectionError` once the client has disconnected."""

    @property
    def protocol(self) -> str:
        """The negotiated protocol; empty if the client did not name any."""
        ...

    async def receive(self) -> bytes | None:
        """Return the next message, text as UTF-8; None at the end."""
        ...

    async def send(self, message: bytes | str) -> None:
        """Send a message; wait while the client does not read."""
        ...


@dataclass(slots=True)
class Upgrade:
    """A response after which client and server communicate over a WebSocket.

    Attributes:
        protocols: the supported subprotocols; the first that the client names is used.
        serve: communicates with the client until it returns or is cancelled.
        end: called at the end, even if `serve` was never called.
        largest: the maximum bytes of a message from the client.
    """

    protocols: Sequence[str]
    serve: Callable[[Socket], Awaitable[None]]
    end: Callable[[], None]
    largest: int
    content_type: str = ""
    headers: list[tuple[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class Tunnel:
    """A response after which a client and a container exchange bytes that the server only forwards.

    Attributes:
        connection: the connection to the container.
        head: the names and values of the headers in the container's response.
        first: the bytes that it has sent after them.
        end: called at the end, once the connection is closed.
    """

    connection: Connection
    head: list[tuple[str, str]]
    first: bytes
    end: Callable[[], None]
    content_type: str = ""
    headers: list[tuple[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class RequestInfo:
    """The parsed path and method of a resource request; `group` is empty for the core group.

    `in_namespace` is True for `/namespaces/NAME/PLURAL...`, the paths of namespaced kinds.
    """

    verb: str
    group: str
    version: str
    resource: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    in_namespace: bool = False


_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_OF_A_NAMESPACE = frozenset({"status", "finalize"})
"""Subresources of namespaces themselves; any other word after a namespace is a resource in it."""


def make_request(
    method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b"", user: User | None = None
) -> ApiRequest:
    """Create a request from an HTTP target: an encoded path, optionally with a query."""
    path, _, query = target.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True) if query else []
    return ApiRequest(method, unquote(path), pairs, headers or {}, body, user)


def parse_path(method: str, path: str, watch: bool) -> RequestInfo | None:
    """Parse a path below `/api/VERSION` or `/apis/GROUP/VERSION`; None for any other path.

    Args:
        method: the HTTP method.
        path: decoded, without query.
        watch: True if the query requests a watch; changes a list into one, but not the get of an object.
    """
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    watch_path = rest[0] == "watch" and len(rest) > 1
    if watch_path:
        rest = rest[1:]
    namespace, in_namespace = "", False
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        in_namespace = len(rest) > 2 and rest[2] not in _OF_A_NAMESPACE
        rest = rest[2:] if in_namespace else rest
    resource, name, subresource = rest[0], "/".join(rest[1:2]), "/".join(rest[2:])
    if subresource.partition("/")[0] == "proxy":  # path and query belong to the target of the proxy
        subresource, watch = "proxy", False
    verb = _verb(method, name, (watch and not name) or watch_path)
    return RequestInfo(verb, group, version, resource, namespace, name, subresource, in_namespace)


def _verb(method: str, name: str, watch: bool) -> str:
    """Return the verb for authorization and discovery; empty for a method that Kubernetes does not use."""
    if method in ("GET", "HEAD"):
        return "watch" if watch else "get" if name else "list"
    if method == "DELETE":
        return "delete" if name else "deletecollection"
    return _VERBS.get(method, "")
