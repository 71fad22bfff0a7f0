"""Requests that are proxied to the API server of an APIService, and its streamed responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from urllib.parse import quote, urlencode

from kilauea.api.container_streams import Connection
from kilauea.apiserver.aggregator.services import Aggregator, RemoteService
from kilauea.apiserver.dynamic.remote import CallError
from kilauea.apiserver.request import ApiRequest, ApiResponse, TextStream, Tunnel, User
from kilauea.apiserver.streams.http_exchange import Body, ExchangeError, Switched, exchange

ANSWER_SECONDS = 60.0
"""Timeout in seconds of a complete response, unless the request is long-running."""
_TEXT = "text/plain; charset=utf-8"
_NOT_PASSED_ON = frozenset(
    "authorization connection content-length expect host keep-alive proxy-authenticate proxy-authorization "
    "te trailer transfer-encoding upgrade".split()
)
"""Headers that apply only to this connection, or that another server must not see."""
_USER_HEADERS = ("x-remote-", "impersonate-")
"""Prefixes of headers with the user, which only this server may set."""
_CROSS_ORIGIN = "access-control-"
"""Prefix of headers with which a server would allow cross-origin requests."""
_LASTING = frozenset(("attach", "exec", "log", "portforward", "proxy"))
"""Subresources with long-running responses, as in Kubernetes."""
_PLAIN = "/:@!$&'()*+,;=~"
_NAME = "!#$&'*+-.^_`|~"
"""Valid characters in header names, besides letters and digits."""
_WITHOUT_BODY = (204, 304)
_REDIRECTS = range(300, 400)


async def proxy_to_service(
    aggregator: Aggregator, service: RemoteService, request: ApiRequest, user: User
) -> ApiResponse | TextStream | Tunnel:
    """Proxy a request, and return the response once its head has arrived.

    Raises:
        ApiFault: the user has too many connections to the server (429).
    """
    if not service.is_available:
        return _text(503, "service unavailable\n")
    if any(part in (".", "..") for part in request.path.split("/")):
        return _text(404, "404 page not found\n")
    try:
        target = aggregator.target(service)
    except CallError:
        return _text(503, "service unavailable\n")
    sessions = aggregator.sessions(service)
    headers = [("host", f"{target.name}:{service.port}"), *_passed(request), *user_headers(user)]
    upgrade = _upgrade(request)
    try:
        connection = await sessions.counted(user, lambda: aggregator.connect(service, target))
        answer = await exchange(connection, request.method, _target(request), headers, request.body, upgrade)
    except (CallError, ExchangeError) as error:
        return _text(503, f"error trying to reach service: {error}")
    if isinstance(answer, Switched):
        return Tunnel(connection, answer.headers, answer.first, _nothing)
    received = [each for each in answer.headers if _is_returned(each[0])]
    kind = next((value for name, value in received if name == "content-type"), "")
    others = [(name, value) for name, value in received if name not in ("content-type", "location")]
    if answer.status in _REDIRECTS and any(name == "location" for name, _ in received):
        await connection.close()
        return _text(502, "the backend attempted to redirect this request, which is not permitted")
    others += [each for each in received if each[0] == "location"]
    if request.method == "HEAD" or answer.status in _WITHOUT_BODY:
        await connection.close()
        return ApiResponse(answer.status, b"", kind, others)
    body = answer.body if _may_last(request) else _InTime(answer.body, connection, ANSWER_SECONDS)
    return TextStream(body, kind or "application/octet-stream", others, answer.status)


class _InTime(Body):
    """The parts of a response, with a timeout for all of them."""

    def __init__(self, parts: AsyncGenerator[bytes, None], connection: Connection, seconds: float) -> None:
        super().__init__(parts, connection)
        self._end = asyncio.get_running_loop().time() + seconds

    async def asend(self, value: None) -> bytes:
        """Return the next part.

        Raises:
            ConnectionResetError: it timed out; the client must see that the response is incomplete.
        """
        try:
            async with asyncio.timeout_at(self._end):
                return await super().asend(value)
        except TimeoutError:
            await self.aclose()
            raise ConnectionResetError("the answer does not end") from None


def user_headers(user: User) -> list[tuple[str, str]]:
    """Return the headers with which a front proxy passes the user."""
    found = [("x-remote-user", user.name), *([("x-remote-uid", user.uid)] if user.uid else [])]
    found += [("x-remote-group", each) for each in user.groups]
    for key, values in user.extra.items():
        found += [(f"x-remote-extra-{quote(key, safe=_NAME)}", value) for value in values]
    return found


def _passed(request: ApiRequest) -> list[tuple[str, str]]:
    """Return the headers of a request that another server may see."""
    return [
        (name, value)
        for name, value in request.headers.items()
        if name not in _NOT_PASSED_ON and not name.startswith(_USER_HEADERS)
    ]


def _is_returned(name: str) -> bool:
    return name not in _NOT_PASSED_ON and not name.startswith(_CROSS_ORIGIN)


def _upgrade(request: ApiRequest) -> str:
    """Return the upgrade protocol of a request; empty without an upgrade."""
    asked = {each.strip().lower() for each in request.headers.get("connection", "").split(",")}
    return request.headers.get("upgrade", "") if "upgrade" in asked else ""


def _may_last(request: ApiRequest) -> bool:
    info = request.info
    return info is not None and (info.verb == "watch" or info.subresource.partition("/")[0] in _LASTING)


def _target(request: ApiRequest) -> str:
    """Return the path and query."""
    path = quote(request.path, safe=_PLAIN)
    return f"{path}?{urlencode(request.query)}" if request.query else path


def _text(code: int, text: str) -> ApiResponse:
    return ApiResponse(code, text.encode(), _TEXT, [("X-Content-Type-Options", "nosniff")])


def _nothing() -> None:
    """Do nothing."""
